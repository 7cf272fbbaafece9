#!/bin/sh
# Every command of the control socket with netcat. Usage: sh nc.sh <what>
# nc closes its sending side at once and waits at most -q seconds for the answer.
case "$1" in
ping) # Health check
  echo '{"cmd":"ping"}' | nc -U ~/.ccc.sock -q 1 ;;
sessions) # List sessions with metadata
  echo '{"cmd":"sessions"}' | nc -U ~/.ccc.sock -q 1 ;;
ask) # Send message and wait for response
  echo '{"cmd":"ask","session":"myproject","text":"Hello"}' | nc -U ~/.ccc.sock -q 300 ;;
send) # Send message without waiting
  echo '{"cmd":"send","session":"myproject","text":"Run tests","from":"ci"}' | nc -U ~/.ccc.sock -q 1 ;;
continue) # Restart a crashed session
  echo '{"cmd":"continue","session":"myproject","from":"agent"}' | nc -U ~/.ccc.sock -q 10 ;;
history) # Get recent history
  echo '{"cmd":"history","session":"myproject","limit":10}' | nc -U ~/.ccc.sock -q 1 ;;
replies) # Get only Claude's messages
  echo '{"cmd":"history","session":"myproject","from_filter":"claude","limit":5}' | nc -U ~/.ccc.sock -q 1 ;;
activity) # Poll activity across all sessions
  echo '{"cmd":"activity"}' | nc -U ~/.ccc.sock -q 1 ;;
screenshot) # Capture terminal output (100 lines)
  echo '{"cmd":"screenshot","session":"myproject","limit":100}' | nc -U ~/.ccc.sock -q 1 ;;
questions) # Check for pending questions
  echo '{"cmd":"questions","session":"myproject"}' | nc -U ~/.ccc.sock -q 1 ;;
answer) # Answer a question (select option 2)
  echo '{"cmd":"answer","session":"myproject","question_index":0,"option_index":2}' | nc -U ~/.ccc.sock -q 1 ;;
*)
  echo "usage: sh nc.sh ping|sessions|ask|send|continue|history|replies|activity|screenshot|questions|answer" >&2
  exit 64 ;;
esac
