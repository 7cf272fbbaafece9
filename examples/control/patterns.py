"""Patterns for programs that drive sessions. Usage: python3 patterns.py poll|preflight|monitor|discover|recover|questions <session>"""
import json
import os
import socket
import sys
import time

from ccc_request import ccc_request


def fire_and_poll(session, pause=10):
    """Send a task, then poll for the answer to it."""
    result = ccc_request({
        "cmd": "send",
        "session": session,
        "text": "Run the full test suite and fix failures",
        "from": "orchestrator"
    })
    sent_id = result["message_id"]
    while True:
        time.sleep(pause)
        history = ccc_request({
            "cmd": "history",
            "session": session,
            "after": sent_id,
            "from_filter": "claude",
            "limit": 1
        })
        if history["messages"]:
            print("Claude responded:", history["messages"][0]["text"])
            break


def preflight(session):
    """Send only to a server that runs and a session that is idle."""
    ping = ccc_request({"cmd": "ping"})
    if not ping["ok"]:
        raise RuntimeError("CCC is down")
    sessions = ccc_request({"cmd": "sessions"})
    target = next((s for s in sessions["sessions"] if s["name"] == session), None)
    if target is None:
        raise RuntimeError("Session not found")
    if target["status"] == "active":
        raise RuntimeError("Session is busy, retry later")
    print(ccc_request({"cmd": "ask", "session": session, "text": "...", "from": "agent"})["response"])


def monitor(session, many):
    """Print status changes of all sessions, one event per recv."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(os.path.expanduser('~/.ccc.sock'))
    sock.sendall(b'{"cmd":"subscribe"}\n')
    while many > 0:
        event = json.loads(sock.recv(4096))
        if event["event"] == "status":
            print(f"{event['session']}: {event['status']}", flush=True)
            many -= event["session"] == session


def discover(folder):
    """Find the session of a project by the end of its path."""
    sessions = ccc_request({"cmd": "sessions"})
    target = next(
        (s["name"] for s in sessions["sessions"]
         if s.get("cwd", "").endswith("/" + folder)),
        None
    )
    if target:
        print(target, ccc_request({"cmd": "ask", "session": target, "text": "...", "from": "agent"})["response"])


def send_with_recovery(session, text, from_agent="agent"):
    """Send a message, restarting the session if needed."""
    result = ccc_request({
        "cmd": "send",
        "session": session,
        "text": text,
        "from": from_agent
    })

    if not result["ok"] and "failed to restart" in result.get("error", ""):
        # Session is crashed beyond auto-recovery, force restart
        restart = ccc_request({
            "cmd": "continue",
            "session": session,
            "from": from_agent
        })
        if not restart["ok"]:
            raise RuntimeError(f"Cannot recover session: {restart['error']}")

        # Retry the send
        result = ccc_request({
            "cmd": "send",
            "session": session,
            "text": text,
            "from": from_agent
        })

    return result


def poll_and_answer_questions(session, decision_fn, timeout=300):
    """Poll for questions and answer them using a decision function.

    decision_fn(question, options) -> option_index
    """
    deadline = time.time() + timeout
    while time.time() < deadline:
        qs = ccc_request({"cmd": "questions", "session": session})
        if not qs.get("questions"):
            time.sleep(2)
            continue

        for i, q in enumerate(qs["questions"]["questions"]):
            if q["answered"]:
                continue
            option_idx = decision_fn(q["question"], q["options"])
            ccc_request({
                "cmd": "answer",
                "session": session,
                "question_index": i,
                "option_index": option_idx
            })
        return True

    return False  # Timed out


if __name__ == "__main__":
    pattern, session = sys.argv[1:3]
    if pattern == "poll":
        fire_and_poll(session, float(os.environ.get("PAUSE", "10")))
    elif pattern == "preflight":
        preflight(session)
    elif pattern == "monitor":
        monitor(session, int(os.environ.get("EVENTS", "3")))
    elif pattern == "discover":
        discover(session)
    elif pattern == "recover":
        print(json.dumps(send_with_recovery(session, "Run tests")))
    elif pattern == "questions":
        # Example: always pick the first option
        print(poll_and_answer_questions(session, lambda q, opts: 0))
    else:
        sys.exit(__doc__)
