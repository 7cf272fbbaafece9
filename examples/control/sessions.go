package main

import (
    "encoding/json"
    "fmt"
    "net"
    "os"
    "path/filepath"
)

func main() {
    home, _ := os.UserHomeDir()
    conn, _ := net.Dial("unix", filepath.Join(home, ".ccc.sock"))
    defer conn.Close()

    // Send request
    req := map[string]string{"cmd": "sessions"}
    json.NewEncoder(conn).Encode(req)

    // Read response
    var resp map[string]interface{}
    json.NewDecoder(conn).Decode(&resp)

    fmt.Printf("%+v\n", resp)
}
