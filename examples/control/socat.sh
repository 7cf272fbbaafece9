#!/bin/sh
# The control socket with socat. Usage: sh socat.sh [sessions]
# Without a word: an interactive session; type lines of JSON.
case "$1" in
sessions) # With timeout
  echo '{"cmd":"sessions"}' | socat -t 5 - UNIX-CONNECT:$HOME/.ccc.sock ;;
*) # Interactive session
  socat - UNIX-CONNECT:$HOME/.ccc.sock ;;
esac
