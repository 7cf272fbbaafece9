/** What the control API (`ccc`) promises. */
export const CONTROL = {
  // Socket, service, protocol
  'CCC-1': 'The control API is reached at `~/.ccc.sock`.',
  'CCC-2': 'The socket is there once `listen` has started, and not before.',
  'CCC-3': 'The socket is removed on SIGTERM and SIGINT.',
  'CCC-4': 'The socket has mode 0600 from its first moment.',
  'CCC-5': 'A second `listen` exits with a clear error while the first goes on serving.',
  'CCC-6': 'A socket left behind by a killed server is replaced at the next start.',
  'CCC-7': '`ccc listen` serves the API in the same process.',
  'CCC-8': '`ccc install-service` writes a valid unit to `~/.config/systemd/user/ccc.service`.',
  'CCC-9': '`ccc setup` installs the service as well.',
  'CCC-10': 'The unit works with status, restart, stop and the journal, and a restart leaves the agent sessions alive.',
  'CCC-11': '`doctor` points to `loginctl enable-linger` when lingering is off.',
  'CCC-12': 'An upgrade restarts a running service, and ping then shows the new version.',
  'CCC-13': 'The transport is a unix stream socket.',
  'CCC-14':
    'Each line is one JSON object in both directions, however writes join or split them, and answers keep the order.',
  'CCC-15': 'Text is UTF-8 and comes back byte for byte.',
  'CCC-16': 'One connection serves any number of requests.',
  'CCC-17': 'Many connections are served at once, and a blocking ask delays nobody else.',
  'CCC-18': 'A session added by another process is seen without a restart.',
  'CCC-19': 'A last line without a newline is still answered.',
  'CCC-20': 'A request line may be up to a stated limit long, and beyond it the client gets a clear error.',

  // ping
  'CCC-21': '`ping` answers ok, version, uptime_seconds and sessions_active, zeros included.',
  'CCC-22': 'The version in `ping` is the one of `--version`.',
  'CCC-23': '`uptime_seconds` counts from the start of the server.',
  'CCC-24': '`sessions_active` counts configured sessions that are not deleted.',
  'CCC-25': '`ping` answers in under 50 ms without calling tmux or ssh.',
  'CCC-26': 'The first connection that succeeds already gets an answer to `ping`.',

  // sessions
  'CCC-27': '`sessions` lists every session that is not deleted, sorted.',
  'CCC-28': 'The `sessions` array is present even when it is empty.',
  'CCC-29': 'A session is named plainly, or `host:name` when it is remote.',
  'CCC-30': 'A session says whether its host is `local` or which remote it is.',
  'CCC-31': 'The status is active for a busy agent, idle for a waiting one and stopped for one that is gone.',
  'CCC-32': '`cwd` is the configured project path, wherever the agent has moved.',
  'CCC-33': '`last_activity` is the time of the last history file in Unix seconds, or 0.',
  'CCC-34': '`last_activity` does not depend on what happens in tmux.',
  'CCC-35': 'A slow or dead remote host does not hold up the list.',
  'CCC-36': 'A status change of the agent shows within a second.',

  // ask
  'CCC-37': '`ask` needs session and text, takes an optional from, and has its own error for each that is missing.',
  'CCC-38': '`ask` returns as soon as the agent has finished its answer.',
  'CCC-39': '`ask` answers ok, response, message_id and duration_ms.',
  'CCC-40': '`response` is the whole text of the agent, exactly as written.',
  'CCC-41': 'The `message_id` of `ask` is the history id of the reply.',
  'CCC-42': '`duration_ms` is the wall time from sending to the answer.',
  'CCC-43': '`ask` starts a session that is not running, with `-c`.',
  'CCC-44': '`ask` restarts an agent that crashed inside tmux and never types text at a shell.',
  'CCC-45':
    '`ask` gives up after 5 minutes with `timeout waiting for response`, and a late answer still reaches history.',
  'CCC-46': 'The chat gets a copy `🤖 [from] text`.',
  'CCC-47': 'A request without from is labelled `api` in chat and history.',
  'CCC-48': 'Question and answer are both in history.',
  'CCC-49':
    'Two asks to one session at once each get their own answer, or the second is told that the session is busy.',
  'CCC-50': 'A client that leaves during `ask` harms nothing, and the answer is stored.',
  'CCC-51': '`ask` never reports success without a real answer or a plain sign that it was empty.',

  // send
  'CCC-52': '`send` takes the same parameters as `ask`.',
  'CCC-53': '`send` returns at once with the id of the sent message.',
  'CCC-54': 'Message ids are positive, unique and keep growing across restarts.',
  'CCC-55': '`send` starts a session that is not running, with `-c`.',
  'CCC-56': 'The reply to a `send` is found in history after its id, filtered by claude.',
  'CCC-57': '`send` puts the same copy into the chat as `ask`.',
  'CCC-58': 'Text reaches the agent byte for byte as one prompt, whatever its length, lines or first character.',
  'CCC-59':
    '`send` tells apart what is queued, injected and submitted, and reports nothing delivered that the agent did ' +
    'not get.',
  'CCC-60': 'Sends to a busy agent wait and arrive later in order.',

  // continue
  'CCC-61': '`continue` needs a session and takes an optional from.',
  'CCC-62': '`continue` answers exactly `{"ok":true}`.',
  'CCC-63':
    '`continue` replaces the tmux session and runs the configured command with `-c`, adding no permission flag ' +
    'the user did not choose.',
  'CCC-64': '`continue` keeps the conversation, and starts afresh when there is none to keep.',
  'CCC-65': '`continue` checks that the agent came up, else `session started but Claude failed to initialize`.',
  'CCC-66': 'When tmux cannot be started, `continue` fails with `failed to start:` and the reason.',
  'CCC-67': '`continue` works for local and remote sessions.',
  'CCC-68': 'The chat gets `🔄 [from] Session continued`.',
  'CCC-69': '`continue` returns when the agent is ready, within a bounded time.',
  'CCC-70': '`continue` brings back a session on which send or ask reported `failed to restart Claude`.',

  // history
  'CCC-71': '`history` needs a session.',
  'CCC-72': '`after` leaves only messages with a greater id.',
  'CCC-73': '`history` gives at most 100 messages unless a limit is set.',
  'CCC-74': 'Paging by `after` and `limit` visits every message in turn, starting with the first after the given id.',
  'CCC-75': '`from_filter` matches human, claude or api exactly.',
  'CCC-76': 'The filter is applied before the limit.',
  'CCC-77': 'The `messages` array is present even when it is empty.',
  'CCC-78': 'A history message has id, ts, from and text.',
  'CCC-79': 'A media message has the type voice or photo.',
  'CCC-80': 'A voice message has its transcription.',
  'CCC-81': 'A photo message has its caption.',
  'CCC-82': 'A message sent by API keeps its from parameter as `agent`.',
  'CCC-83': 'A message by a person has a username.',
  'CCC-84': 'History ids are unique over all sessions and processes.',
  'CCC-85': 'A very long message hides none of the others.',
  'CCC-86': 'History runs from oldest to newest.',
  'CCC-87': 'The history of a deleted session is `session not found`.',

  // activity
  'CCC-88': '`activity` takes no parameters and covers every session that is not deleted.',
  'CCC-89': '`activity` gives name, lastMessageId, lastMessageTs, lastFrom and lastText.',
  'CCC-90': 'Without history both numbers are 0, and lastFrom and lastText are absent.',
  'CCC-91': '`lastText` is cut after 100 whole characters with `...`.',
  'CCC-92': '`lastText` is the transcription of a voice message and the caption of a photo.',
  'CCC-93': '`activity` reads only the end of the history and stays under 50 ms at any size.',
  'CCC-94': 'Each new message raises `lastMessageId`.',

  // screenshot
  'CCC-95': '`screenshot` needs a session and shows 50 lines unless a limit is set.',
  'CCC-96': '`screenshot` gives the visible pane text in `response`.',
  'CCC-97': '`screenshot` includes the interface elements of the agent as they stand.',
  'CCC-98': '`screenshot` works for remote sessions.',
  'CCC-99': '`screenshot` is one answer for one moment.',
  'CCC-100': 'A screenshot of a session that is not running is a clear error.',

  // questions and answer
  'CCC-101': '`questions` needs a session.',
  'CCC-102': 'With nothing pending `questions` answers exactly `{"ok":true}`, and an unknown session is not found.',
  'CCC-103': 'Questions that the agent asks through its hook appear with session, list and timestamp.',
  'CCC-104':
    'A question has text, header, options, multi_select, answered, answer_index and timestamp, false and 0 included.',
  'CCC-105': 'Questions expire after 5 minutes and can no longer be answered.',
  'CCC-106': 'A question appears in chat with one button row per option.',
  'CCC-107': 'An answer given in chat shows here too, for remote names as well.',
  'CCC-108': '`answer` needs session, question_index and option_index, both counted from 0, and guesses none of them.',
  'CCC-109': 'An answer is typed as Down once per option index, then Enter.',
  'CCC-110': 'After the last question one more Enter submits the set, if the screen still waits for it.',
  'CCC-111': '`answer` says `answered question N with option M (label)`.',
  'CCC-112': 'History gets `Selected: <label>` as a human message.',
  'CCC-113': 'Nothing pending, already answered and indices out of range each have their own error.',
  'CCC-114': 'Answering questions out of order never drives the wrong one.',
  'CCC-115': 'A question with multi_select accepts several options.',
  'CCC-116': 'Questions and answers work for remote sessions.',

  // subscribe
  'CCC-117': '`subscribe` covers the named sessions, or all of them when none is named.',
  'CCC-118': 'The first line is the subscribed event with the names joined by commas.',
  'CCC-119': 'A status event follows for the first status of each session and for every change.',
  'CCC-120': 'Subscribed statuses are active, idle and stopped.',
  'CCC-121': 'A change is seen within 5 s.',
  'CCC-122': 'A subscription stays open until its client goes, and leaves nothing behind.',
  'CCC-123': 'Without sessions the subscribed event carries an empty name.',

  // Error texts
  'CCC-124': 'Every failure is `{"ok":false,"error":…}`.',
  'CCC-125': 'A line that is not JSON gets `invalid JSON`, and the connection stays usable.',
  'CCC-126': 'An unknown or missing cmd gets `unknown command`.',
  'CCC-127': 'A command without its session gets `session required`.',
  'CCC-128': 'A missing or deleted session gets `session not found`.',
  'CCC-129': 'A session on an unknown host gets `host not configured`.',
  'CCC-130': 'A send that breaks gets `failed to send:` and the reason.',
  'CCC-131': 'An answer that does not come gets `timeout waiting for response`.',
  'CCC-132': 'Answering with nothing pending gets `no pending questions for this session`.',
  'CCC-133': 'Answering twice gets `question already answered`.',
  'CCC-134': 'A wrong question gets `question_index out of range`.',
  'CCC-135': 'A wrong option gets `option_index out of range`.',
  'CCC-136': 'An agent that dies at start gets `session started but Claude failed to initialize`.',
  'CCC-137': 'A tmux that cannot start gets `failed to start:` and the reason.',
  'CCC-138':
    'Further known errors: `session and text required`, `failed to restart Claude`, `failed to start session:`, ' +
    '`capture failed:`, `failed to send keys:`, `failed to read history:`.',

  // Storage, chat, samples
  'CCC-139': 'History lies in `~/.ccc/history/<topic_id>/messages/` in files named by date and hour.',
  'CCC-140': 'Each hour has its own history file.',
  'CCC-141': 'History is one JSON message per line, only appended to, in files of mode 0600 and folders of mode 0700.',
  'CCC-142': 'History is kept for ever.',
  'CCC-143': 'Every message sent by API shows in the chat topic of its session.',
  'CCC-144': 'A chat that is down neither blocks nor fails the API.',
  'CCC-145': 'The documented nc, socat, Python and Go samples run unchanged.',
  'CCC-146': 'Pattern 1 works: an orchestrator asks and gets its answer.',
  'CCC-147': 'Pattern 2 works: fire a message and poll for the reply.',
  'CCC-148': 'Pattern 3 works: check a session before using it.',
  'CCC-149': 'Pattern 4 works: monitor in the background.',
  'CCC-150': 'Pattern 5 works: one line in CI.',
  'CCC-151': 'Pattern 6 works: find a session by the end of its path.',
  'CCC-152': 'Pattern 7 works: recover from a crash on `failed to restart`.',
  'CCC-153': 'Pattern 8 works: poll for questions and answer them.',

  // Safety
  'CCC-154': 'A tmux target is matched exactly, so text for one session never reaches another whose name starts alike.',
  'CCC-155': 'Replies of sessions in the same or nested folders go to the right one, by agent session id.',
  'CCC-156': 'Sessions with the same base name on other hosts or paths do not collide.',
  'CCC-157': 'A reply is matched to its question by turn and not by time.',
  'CCC-158': 'A person typing in the pane is not disturbed: a send waits or is refused.',
  'CCC-159': 'A dialog on the screen holds back any injection.',
  'CCC-160': 'History and chat say delivered only after delivery, and a failed send is marked so.',
  'CCC-161':
    '`~/.ccc.json` (0600) holds chat, sessions and hosts; it is replaced atomically under a lock, and unknown ' +
    'keys survive.',
  'CCC-162': 'A session without a chat topic has history too, under its own id.',
  'CCC-163': 'A session that waits for a person is `idle` with an extra field `waiting_for`.',

  // Sessions and names
  'CCC-164':
    'Sessions are made by `ccc new`, by `ccc` in a folder and by `parley session add`, ended by `ccc kill` and `parley session remove`, and a running server sees it.',
  'CCC-165':
    'A session name is unique, may name a host, works or is refused with words, and never shares a terminal with another.',

  // Connections and input
  'CCC-166': 'A caller that closed its sending side still gets all its answers, then the server closes the connection.',
  'CCC-167': 'An answer of up to 16 KB is one write.',
  'CCC-168': 'Lines after `subscribe` harm nothing, and the end of the sending side does not end the stream.',
  'CCC-169':
    'Wrong types, odd numbers, deep nesting, invalid UTF-8 and a byte order mark get an error each, and the connection stays usable.',
  'CCC-170': 'A `limit` that is absent or below 1 is the default, and none is above 10,000.',

  // Answers and their questions
  'CCC-171': 'A poll with the id of a sent message finds the reply to that very message, whoever types in between.',
  'CCC-172':
    'The 5 minutes of an ask begin with the request; a prompt that was not typed by then never is, and one that was typed is answered into history.',

  // What is typed, and where
  'CCC-173': 'What is sent is never a command of the client, unless the file allows it and the request says so.',
  'CCC-174': 'Control bytes and invisible characters never split a prompt, and no text is left in the composer.',
  'CCC-175': 'Nothing is typed unless the client itself is in that terminal, idle, with an empty composer.',

  // Start, resume, stop
  'CCC-176':
    'A session is started with its own conversation, else the newest of its folder, else a fresh one, and ask says which.',
  'CCC-177':
    'A start waits for the sign of the client, up to a set time, and ends at once with its last line if it exits.',
  'CCC-178': 'Two sessions in one folder keep their own conversations and answers.',
  'CCC-179': 'A person at the terminal sees everything, and control changes neither its size nor its mode.',
  'CCC-180': 'A turn that is cut off ends the ask with an error within 2 s, and history says so.',
  'CCC-181': 'Several starts at once are one start, and all get its result.',

  // Questions and approvals
  'CCC-182':
    'Permission prompts are shown among the questions, and the socket approves none unless a person wrote so into the file.',
  'CCC-183': 'An answer is bound to its question, and is ok only after the client went on.',
  'CCC-184': 'The extra Enter is pressed only on a review page.',
  'CCC-185': '`answer` also takes a free text and several options.',

  // History files
  'CCC-186': 'History of an earlier ccc is served with its ids, fields and order, and start-up does not read it whole.',
  'CCC-187': 'The history files are complete and in order at the moment of the answer.',
  'CCC-188': 'Fields of media survive, and unknown fields are passed through.',
  'CCC-189': 'A delivery that failed stays in history as failed, with the reason.',

  // Chat
  'CCC-190': 'The root of the chat API comes from the file or the environment.',
  'CCC-191': 'A session gets one topic, a deleted topic is made again, and without a group all else works.',
  'CCC-192': 'Buttons work for any name, and one that is pressed twice or late says so.',
  'CCC-193': 'Replies reach the topic whole, in pieces that cut no character, in order, at the pace the chat allows.',
  'CCC-194': 'Only the allowed chat is heard, the token is shown nowhere, and no update counts twice.',
  'CCC-195': 'A voice message is transcribed within a time limit, and a failure is said and stored.',
  'CCC-196': 'A photo is saved for the user only, up to a size, and the prompt names it.',
  'CCC-197': 'The chat commands answer in the topic, and a shell by chat is off unless the file says otherwise.',

  // Setup and service
  'CCC-198': '`ccc setup` keeps an earlier configuration, asks before it skips permissions, and says what it did.',
  'CCC-199': '`ccc install-service` overwrites no unit of a person, finds tmux and the client, and can be undone.',
  'CCC-200': 'After a restart of the service sessions live on, waiting asks end within 2 s, and none is typed twice.',

  // Remote hosts, load, other clients
  'CCC-201':
    'A remote host is reached by OpenSSH with its keys checked, over one connection, and a dead one costs others nothing.',
  'CCC-202': 'Text for a remote session goes through stdin, never through a command line.',
  'CCC-203': "State of a remote session comes from the far client's own files.",
  'CCC-204': 'Memory does not grow with answers, history or subscribers that do not read; such a one is dropped.',
  'CCC-205': 'Other clients are sessions too, and what one of them cannot do is said.',
} as const;
