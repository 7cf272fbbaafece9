/** What the backchannel dialect (`bch`) and its relay promise. */
export const BACKCHANNEL = {
  // What it does
  'BC-1':
    'A message has id, from, to, body, priority and ts, optionally scope, thread and refs; readers ignore fields ' +
    'they do not know.',
  'BC-2':
    'A message goes to `@agent` or `#channel`; a channel send gives every subscriber except the sender an ' +
    'independent copy at once.',
  'BC-3':
    'Priority is only a hint for waking: urgent and normal messages take the same path and lie in the same place.',
  'BC-4':
    'A reader with `--match` claims unscoped messages and those whose normalised scope lies in the match; other ' +
    'scoped mail keeps waiting.',
  'BC-5': '`thread` and `refs` are optional and come back exactly as they were sent.',
  'BC-6':
    '`inbox` claims nothing; of racing `take` calls exactly one wins and the others get null; `drain` takes each ' +
    'match; a killed reader leaves its copies to the next.',
  'BC-7':
    'Everything lives in `config.json`, `agents/` and `spool/<agent>/{tmp,new,cur}/` under a home that ' +
    '`BACKCHANNEL_HOME` can move.',
  'BC-8':
    'A copy is written in `tmp/`, flushed and renamed into `new/`, so nobody reads half a message and no ' +
    'acknowledged one is lost in a crash.',
  'BC-9': 'Acknowledging a copy deletes it, or moves it to `cur/` when it is to be kept.',
  'BC-10': 'Retrying a send never makes a message arrive twice, even when the retry races a take.',
  'BC-11':
    'Subscriptions live on the agent record and make the channel exist; a send that reaches nobody else is an ' +
    'error; concurrent subscribes all count.',
  'BC-12':
    'The relay offers the same spool over HTTP with JSON bodies and wants a bearer token on every route except ' +
    'health.',
  'BC-13': 'A room token lets new agents register and opens no other route.',
  'BC-14':
    'An agent token is shown once, stored as a hash and decides who is speaking: it stamps `from`, opens no other ' +
    'mailbox, and is needed to register the name again.',
  'BC-15': 'The relay has ten routes, and every refusal is a 4xx with an `error` text.',
  'BC-16':
    'The event stream pushes each new message and a keepalive every 25 s; it claims nothing, so a client that ' +
    'dies in the middle gets the message again.',
  'BC-17':
    'Local mode trusts file permissions (0600, 0700), the relay enforces identity, a lost token is cured by ' +
    'removing the record, and bodies stay untrusted.',
  'BC-18':
    '`watch --exec` hands the message over as `BCH_*` variables and JSON on stdin, never as shell text, and ' +
    'settles the copy only when the command exits 0.',

  // B1 Message JSON
  'BC-B1.1': 'A message is written with its keys in the order id, from, to, body, priority, scope, thread, refs, ts.',
  'BC-B1.2': 'A message file is compact JSON without a newline at its end.',
  'BC-B1.3': 'A message id is a random version 4 UUID in lower case.',
  'BC-B1.4': '`ts` is an ISO time in UTC with milliseconds and a trailing Z.',
  'BC-B1.5': 'A priority that is absent or null becomes `normal`.',
  'BC-B1.6': 'A message that carries some other priority word is still read and passed on unchanged.',
  'BC-B1.7': 'An empty `scope` or `thread` and an empty list of `refs` are left out of the message.',
  'BC-B1.8': '`to` is stored exactly as the sender typed it, with or without its sign.',
  'BC-B1.9': 'Fields that a send does not know are dropped.',
  'BC-B1.10': 'The relay ignores `from`, `id` and `ts` sent by a client and sets its own.',
  'BC-B1.11': 'A send without a body is refused, while an empty body is accepted.',

  // B2 Names and targets
  'BC-B2.1':
    'An agent name has letters, digits, `.`, `_` and `-`, begins with a letter or digit and minds case; `a..` is ' +
    'legal. Ours: at most 128 characters, to fit into longer file names, and no new one that differs only by ' +
    'case, as some disks fold it.',
  'BC-B2.2':
    'Registering checks the name; a target that starts with `#` is a channel, any other is an agent after one ' +
    'leading `@` is removed.',
  'BC-B2.3':
    'Any channel name is allowed; subscribing adds a missing `#` (an empty name becomes `#`), sending never does, ' +
    'and names match exactly.',
  'BC-B2.4':
    'A message to oneself arrives; fan-out copies share id and JSON, skip the sender, need no subscription of it, ' +
    'and without other subscribers nothing is written.',
  'BC-B2.5':
    'Fan-out writes one copy after another: a crash half-way leaves whole copies for some, and a retry gives the ' +
    'rest theirs.',

  // B3 On disk: rules, then layout
  'BC-B3.1':
    'Only `<id>.json` with that id inside is claimable; other names are passed over. Ours: a mismatch is not ' +
    'listed, and after 10 s it and what cannot be parsed go to `aside/` and `parley doctor` names them, or nobody ' +
    'would ever know.',
  'BC-B3.2':
    'A send creates the folders, writes `tmp/<id>.json`, renames it into `new/` and then updates the `lastSeen` ' +
    'of the sender.',
  'BC-B3.3':
    '`inbox` of a local spool updates the own `lastSeen` and lists by `ts`, ties in directory order; a message ' +
    'without `ts` does not break the list. Ours: `lastSeen` is written at most once a minute, as each look would ' +
    'cost a flush.',
  'BC-B3.4':
    '`take` renames a copy out of `new/` and deletes it, or leaves it in `cur/` if kept; a missing or lost one ' +
    'gives null. Ours: by way of `held/`, because what a dying reader leaves in `cur/` nobody would ever read.',
  'BC-B3.5':
    'Rewriting an agent record keeps fields it does not know, and no secret besides `tokenHash` is ever put there.',
  'BC-B3.6': 'A locally made record has no `tokenHash`, and our relay does not let the room token claim it.',
  'BC-B3.7': 'A direct message may be sent to a name exactly when `agents/<name>.json` exists.',
  'BC-B3.8': 'The home is `$BACKCHANNEL_HOME`, otherwise `~/.backchannel`.',
  'BC-B3.9':
    '`config.json` is JSON indented by two with `agent` and optional `url`, `token`, `room` and `backend`; ' +
    '`brain*` keys found there do no harm.',
  'BC-B3.10':
    '`agents/<name>.json` is JSON indented by two with name, subscriptions, createdAt, lastSeen and, on a relay, ' +
    'tokenHash.',
  'BC-B3.11': 'Each agent has a spool with the folders `tmp`, `new` and `cur`, one file per message.',
  'BC-B3.12':
    'A relay keeps every room in `rooms/<roomId>/` with its own agents and spool; the room `default` needs no ' +
    '`room.json`.',
  'BC-B3.13':
    'A home in the older relay layout, with `agents/` and `spool/` directly in it as in local mode, is served too.',
  'BC-B3.14': '`room.json` holds the hash of the room token and the time of creation.',
  'BC-B3.15': 'The wake service on macOS logs to `~/.backchannel/wake.log`.',

  // B4 Scope
  'BC-B4.1':
    'Normalising a scope lower-cases it, strips the http scheme, `git@`, one `.git` and trailing slashes, and ' +
    'turns colons into slashes, in this order.',
  'BC-B4.2': 'A message without scope fits every reader; a scoped one never fits a reader without a match.',
  'BC-B4.3': 'A scoped message fits when its normalised scope is a substring of the normalised match.',
  'BC-B4.4': 'Scope `repo` fits `myrepo-old`, and `org/repo` fits `myorg/repo2`.',
  'BC-B4.5': 'A scope that normalises to nothing, such as `/` or `https://`, fits every non-empty match.',
  'BC-B4.6': 'A scope `x.git/` keeps its `.git`, because the slash hides it from that step.',
  'BC-B4.7':
    'Scopes in the forms `ssh://git@host/...` and `https://user@host/...` do not fit the plain form of the address.',
  'BC-B4.8': '`inbox` without `--match` shows everything, scoped messages included.',
  'BC-B4.9': '`drain`, `watch` and `bch_inbox` leave scoped messages alone when no match is given.',
  'BC-B4.10': '`watch --peek` without a match shows scoped messages too.',
  'BC-B4.11': '`read` finds a message by id prefix whatever its scope.',

  // B5 Relay: routes in order, then what holds for all of them
  'BC-B5.1': 'GET /v1/health answers 200 with ok and the service name `backchannel-relay`.',
  'BC-B5.2':
    'POST /v1/rooms answers a fresh room id (6 bytes) and token (24 bytes) in base64url, or 401 when an admin ' +
    'token is set and not shown.',
  'BC-B5.3': 'Registering a new name answers the record and a token of 64 hex digits, without the hash.',
  'BC-B5.4':
    'Registering with a wrong or missing room token is 401 `unauthorized — registration requires the room token`.',
  'BC-B5.5': 'Registering in an unknown room is 404 with a text that names the room and `bch room new`.',
  'BC-B5.6':
    'Registering a taken name without its token is 409 `agent name "X" is registered — present its token to ' +
    're-register`.',
  'BC-B5.7': 'Registering a taken name with its own token is 200 with the record, no token, and a newer `lastSeen`.',
  'BC-B5.8': 'Registering an illegal name is 400 `invalid agent name "X" (use letters, digits, . _ -)`.',
  'BC-B5.9':
    'Every other route without a valid agent token is 401 `unauthorized — agent token required (get one via ' +
    '/v1/register)`.',
  'BC-B5.10': 'GET /v1/agents lists the agents by name in locale order, without their hashes.',
  'BC-B5.11': 'GET /v1/channels lists the channel names with `#`, sorted by code unit.',
  'BC-B5.12':
    'Subscribing and unsubscribing answer `{"ok":true}`, also for an unknown channel, and act on the owner of the ' +
    'token only.',
  'BC-B5.13':
    'POST /v1/send answers the stored message, or 400 naming the unknown agent or the channel without other ' +
    'subscribers.',
  'BC-B5.14':
    'GET /v1/inbox/:agent decodes the name and answers an array; the inbox of another is 403 `token is for "me", ' +
    'not "other"`, a bad escape 400.',
  'BC-B5.15': 'POST /v1/take answers `{"message":…}`, with null for an id that is unknown or missing.',
  'BC-B5.16': 'GET /v1/events/:agent is an event stream, and 403 for anyone but its owner.',
  'BC-B5.17': 'A path that does not exist is 404 `not found`.',
  'BC-B5.18': 'Malformed JSON and wrong types are 400 with a text that says what is wrong.',
  'BC-B5.19': 'A request body above 128 MiB is not accepted.',
  'BC-B5.20':
    'The token of the default room comes from `--token` or `BACKCHANNEL_TOKEN` of the relay; without one anybody ' +
    'may register.',
  'BC-B5.21':
    'Agent and room tokens are stored as the unsalted SHA-256 of their UTF-8 text, in hex, in the field `tokenHash`.',
  'BC-B5.22':
    'Answers suit a client that parses JSON before it looks at the status: errors and 404s are JSON too, and ' +
    'success has the exact shape.',
  'BC-B5.23': 'A path with a doubled slash, as a configured address with a trailing slash makes it, reaches its route.',
  'BC-B5.24': 'The relay never redirects and needs no client to time out or to retry.',
  'BC-B5.25': 'Every answer is JSON, and a failure is an object with one `error` text.',
  'BC-B5.26': 'The relay listens on port 7117 unless told otherwise.',
  'BC-B5.27':
    'The header `x-backchannel-room` is trimmed and names the room; an invalid or absent one means `default`.',
  'BC-B5.28': 'The word Bearer is accepted in any case, and a bare token works as well.',
  'BC-B5.29': 'A request is tried as health, room creation and registration, then authenticated, then routed.',
  'BC-B5.30':
    'An unknown path is 401 without a token and 404 with one, a wrong method is 404, and `/v1/health/` is 401.',
  'BC-B5.31': 'A bad token is reported before bad JSON.',

  // B6 Event stream
  'BC-B6.1': 'The stream uses LF and `data: ` with a space, and carries nothing but messages as data events.',
  'BC-B6.2':
    'Our stream client reconnects 2 s after an end or error, and after several in a row ever more slowly, at most 30 s ' +
    'apart; quietly and for ever, also after a 401.',
  'BC-B6.3':
    'Our relay sends the stream headers at once; our client counts as subscribed without them and waits at least ' +
    '30 s for them.',
  'BC-B6.4': 'The stream is a chunked `text/event-stream` with `no-cache` and `keep-alive`.',
  'BC-B6.5': 'Each message is one `data:` line of JSON followed by an empty line.',
  'BC-B6.6': 'A `: keepalive` comment is sent every 25 s.',
  'BC-B6.7': 'The stream needs no `event:`, `id:` or `retry:` lines.',
  'BC-B6.8': 'A new connection first gets everything unread, oldest first, then what arrives.',
  'BC-B6.9':
    'The stream claims nothing, sends a message once per connection, and takes nothing back when it is claimed ' +
    'elsewhere.',

  // B7 Commands: options, parsing, texts, environment
  'BC-B7.1': '`init <name>` takes `--url` and `--token`.',
  'BC-B7.2': '`room new` takes channels as words or by repeated `--channel`, and `--url`.',
  'BC-B7.3': '`invite` needs `--token`, takes `--url` and repeated `--channel`, and accepts `--out` without effect.',
  'BC-B7.4': '`join <invite>` needs `--as <name>` and takes `--no-hooks` and `--wake`.',
  'BC-B7.5': '`setup` takes `--no-hooks` and `--wake`.',
  'BC-B7.6': '`send <target> <words>` takes `--urgent`, `--scope`, `--thread` and repeated `--ref`.',
  'BC-B7.7': '`inbox` takes `--json`, `--brief` and `--match`.',
  'BC-B7.8': '`drain` takes `--json`, `--hook` and `--match`.',
  'BC-B7.9': '`read <id-prefix>` takes `--keep`.',
  'BC-B7.10': '`watch` takes `--exec`, `--urgent-only`, `--match` and `--peek`.',
  'BC-B7.11': '`sub` and `unsub` take one channel.',
  'BC-B7.12': '`agents`, `channels` and `whoami` take no arguments.',
  'BC-B7.13': '`relay` takes `--port` (7117 unless given) and `--token`.',
  'BC-B7.14': '`mcp` serves the tools on stdio.',
  'BC-B7.15': '`help`, `--help`, `-h` and no command at all print the help.',
  'BC-B7.16': "An unknown flag is `error: Unknown option '--x'` with exit code 1.",
  'BC-B7.17': '`--` ends the options, and surplus words are refused where a command takes none.',
  'BC-B7.18': 'An error is one `error: <message>` on stderr with exit code 1.',
  'BC-B7.19': '`init` prints `registered as "n"` with `local spool` or the relay address in brackets.',
  'BC-B7.20': '`init` on a relay adds that the agent token is saved and the room token no longer needed.',
  'BC-B7.21':
    '`join` prints address, room and name, each subscription, each harness action, an empty line and a ready line ' +
    'with a command to try.',
  'BC-B7.22': '`send` prints `sent <first 8 of the id> to <target>`.',
  'BC-B7.23': 'An inbox without messages prints `inbox empty`.',
  'BC-B7.24': '`read` says `no unread message with id P`, or `message P was claimed by another session`.',
  'BC-B7.25': '`sub` and `unsub` print `subscribed to X` and `unsubscribed from X`, X as it was typed.',
  'BC-B7.26': '`agents` prints one line each: name, channels in brackets and `— last seen` with an ISO time.',
  'BC-B7.27': '`channels` without any prints "no channels yet — `bch sub #general` to create one".',
  'BC-B7.28': '`whoami` prints the name and `via local spool` or via the relay address.',
  'BC-B7.29': '`relay` prints `backchannel relay listening on` and its address with a final slash.',
  'BC-B7.30': '`watch` tells on stderr whose inbox it watches, whether messages stay queued, and how to stop it.',
  'BC-B7.31': 'Without an identity a command fails with a text that names `bch init <name>` and `BACKCHANNEL_AGENT`.',
  'BC-B7.32': 'An unknown command is `unknown command "x"` with a pointer to `bch help`.',
  'BC-B7.33': 'A full message starts `from -> to`, `[URGENT]` if so, then time and short id in brackets.',
  'BC-B7.34': 'A full message goes on with indented lines for scope, thread and refs where present, then the body.',
  'BC-B7.35':
    'A brief message is the head, a colon and the body on one line with its whitespace collapsed, cut at 120 ' +
    'characters with `…`.',
  'BC-B7.36': '`--json` prints an array indented by two; an empty drain prints `[]`.',
  'BC-B7.37': '`drain --hook` with no mail or no identity prints nothing and exits 0.',
  'BC-B7.38': '`drain --hook` with mail prints `[backchannel] N message(s) for <agent>:` and then the full messages.',
  'BC-B7.39': '`drain --hook --json` prints JSON only, `[]` when there is nothing.',
  'BC-B7.40': 'A relay that cannot be reached is an error with exit code 1, also under `--hook`.',
  'BC-B7.41': '`drain` claims what matches before it prints, and settles a copy only after it was printed.',
  'BC-B7.42':
    '`--exec` knows the placeholders body, from, to, id and priority in double braces, each as a reference, never ' +
    'as pasted text.',
  'BC-B7.43': '`watch` without `--peek` claims a message before it runs the command for it.',
  'BC-B7.44': 'Home, agent, relay address and token can be given as `BACKCHANNEL_HOME`, `_AGENT`, `_URL` and `_TOKEN`.',
  'BC-B7.45':
    '`BACKCHANNEL_RELAY_ROOM` picks the room on a relay; `BACKCHANNEL_ROOM` and `BACKCHANNEL_BACKEND` never do.',
  'BC-B7.46':
    '`BACKCHANNEL_DEFAULT_RELAY`, `BACKCHANNEL_ADMIN_TOKEN` (on the relay) and `BACKCHANNEL_SETUP_HOME` are ' +
    'honoured.',
  'BC-B7.47': 'The environment beats the config file.',
  'BC-B7.48': '`BACKCHANNEL_TOKEN` is the room token to a relay and the agent token to a client.',
  'BC-B7.49':
    '`room new` uses the first address among `--url`, `BACKCHANNEL_URL`, the config file and ' +
    '`BACKCHANNEL_DEFAULT_RELAY`.',
  'BC-B7.50': '`room new` sends no token, so a relay that restricts room creation refuses it and the user reads why.',
  'BC-B7.51': 'There is no built-in relay: `room new` without any address fails and says so.',
  'BC-B7.52': 'The `--brain` options and `UNISON_*` variables are refused in one line.',

  // B8 Invites
  'BC-B8.1':
    'An invite is `bch1-` and unpadded base64url of JSON with url, token, room and channels in this order, all ' +
    'but url optional.',
  'BC-B8.2': 'A bad invite is refused with one of three texts: wrong start, malformed, or no relay url.',
  'BC-B8.3': 'An invite holds the room secret in clear, never expires and may be used any number of times.',
  'BC-B8.4': '`room new` and `invite` print a headline and the line `bch join <invite> --as their-name`.',
  'BC-B8.5':
    'Joining again under a name that is taken is refused with 409, because the invite brings the room token only.',

  // B9 Setup
  'BC-B9.1': '`BACKCHANNEL_SETUP_HOME` replaces the home directory that `setup` works in.',
  'BC-B9.2': '`setup` finds Claude Code, Codex and Gemini by their folders in the home or by their binaries.',
  'BC-B9.3':
    'For Claude Code `setup` adds a UserPromptSubmit hook that drains mail matching the git origin or the current ' +
    'folder.',
  'BC-B9.4': 'No hook is added when any hook command already contains `drain --hook`.',
  'BC-B9.5': 'For Claude Code `setup` puts SKILL.md into `skills/backchannel/`.',
  'BC-B9.6': 'For Claude Code `setup` registers the stdio server `backchannel` in `~/.claude.json`.',
  'BC-B9.7': 'For Codex `setup` appends `[mcp_servers.backchannel]` to `config.toml`.',
  'BC-B9.8': 'For Codex `setup` adds a section to AGENTS.md unless that file mentions backchannel.',
  'BC-B9.9': 'For Gemini `setup` registers the server in `settings.json` and adds a section to GEMINI.md.',
  'BC-B9.10': 'With nothing to set up `setup` prints a line that starts `[none] no known harness detected`.',
  'BC-B9.11':
    '`--wake` installs a launchd agent or systemd user unit, labelled `parley-wake`, that notifies of urgent mail ' +
    'and claims nothing.',
  'BC-B9.12': 'A wake service under the label of the established program counts as installed, so there are never two.',
  'BC-B9.13': 'A settings file that is not valid JSON is an error that names the file.',
  'BC-B9.14': 'Running `setup` again changes nothing and reports what is already there.',
  'BC-B9.15':
    'Our hook command contains `drain --hook` and our MCP key is `backchannel`, so neither product installs ' +
    'beside the other.',

  // B10 MCP
  'BC-B10.1': 'The MCP server runs on stdio as `backchannel` 0.1.0 and offers tools only.',
  'BC-B10.2':
    '`bch_send` takes target, body and optional priority, scope, thread and refs, and answers `sent <full id> to ' +
    '<target>`.',
  'BC-B10.3': '`bch_inbox` claims what matches and answers a JSON array indented by two, or `inbox empty`.',
  'BC-B10.4': '`bch_agents` answers the agents as a JSON array.',
  'BC-B10.5': '`bch_subscribe` takes a channel and answers `subscribed to X`.',
  'BC-B10.6': 'A tool that fails answers `isError: true` with the message as text.',
  'BC-B10.7': 'Tool arguments outside the schema are not allowed.',
  'BC-B10.8':
    'There are exactly these four tools: none to unsubscribe, peek, read or wait, and no resources or notifications.',
  'BC-B10.9': 'The MCP server does not start without an identity.',

  // Faults it must not have
  'BC-C1': 'An id with path parts in `take` is refused and touches no file outside the mailbox.',
  'BC-C2': 'Nothing in a message is ever run as shell code by `watch --exec`, however the placeholder is quoted.',
  'BC-C3': 'Registering without a name is refused and harms nobody else in the room.',
  'BC-C4': 'A room header creates nothing on disk before the caller is authenticated.',
  'BC-C5': 'A target with path parts such as `@../x` is refused and writes nothing outside the spool.',
  'BC-C6': 'Of 20 concurrent subscribes all 20 are kept.',
  'BC-C7': 'One unreadable agent record affects only that agent: the relay starts and everyone else signs in.',
  'BC-C8': 'A message without a body does not stop `watch`, and is not lost by it.',
  'BC-C9': 'When the reader of `drain` goes away in mid-output, what was not printed comes back.',
  'BC-C10': 'A reconnect does not notify again of messages that were already announced.',
  'BC-C11': 'A second `init` on one machine leaves the token of the first agent usable.',
  'BC-C12': 'Files that hold tokens are readable by their owner only.',
  'BC-C13':
    'A request body that stalls is cut off after a while, and a slow stream reader is buffered only up to a limit.',
  'BC-C14': 'Authenticating a request does not read every agent file, so 1,000 agents do not slow the relay down.',
  'BC-C15': 'A stream over a full inbox is sent with bounded memory.',
  'BC-C16': 'A local record without a token answers 409 to the room token until a token is issued on the host.',
  'BC-C17': 'The relay has paging, quotas, expiry, rate limits, metrics and logs.',
} as const;
