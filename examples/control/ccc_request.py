"""A request to the control socket in Python. Run it to see ping, sessions, ask, continue and questions."""
import socket
import json
import os

def ccc_request(cmd):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(os.path.expanduser('~/.ccc.sock'))
    sock.sendall((json.dumps(cmd) + '\n').encode())
    response = sock.recv(65536).decode()
    sock.close()
    return json.loads(response)

def main():
    # Health check
    ping = ccc_request({"cmd": "ping"})
    print(f"CCC v{ping['version']}, up {ping['uptime_seconds']}s")

    # List sessions
    sessions = ccc_request({"cmd": "sessions"})
    for s in sessions["sessions"]:
        print(f"  {s['name']} ({s['status']}) cwd={s.get('cwd', 'N/A')}")

    # Ask Claude
    response = ccc_request({
        "cmd": "ask",
        "session": "myproject",
        "text": "What tests are failing?",
        "from": "my-script"
    })
    print(f"Response (msg {response['message_id']}): {response['response']}")

    # Restart a crashed session
    result = ccc_request({
        "cmd": "continue",
        "session": "myproject",
        "from": "my-script"
    })
    if result["ok"]:
        print("Session restarted successfully")

    # Handle interactive questions
    qs = ccc_request({"cmd": "questions", "session": "myproject"})
    if qs.get("questions"):
        for i, q in enumerate(qs["questions"]["questions"]):
            if not q["answered"]:
                print(f"Q{i}: {q['question']}")
                for j, opt in enumerate(q["options"]):
                    print(f"  [{j}] {opt['label']} - {opt.get('description', '')}")
                # Answer with first option
                ccc_request({
                    "cmd": "answer",
                    "session": "myproject",
                    "question_index": i,
                    "option_index": 0
                })

if __name__ == "__main__":
    main()
