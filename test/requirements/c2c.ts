/** What the c2c dialect promises. */
export const C2C = {
  // Broker and environment
  'C2C-1':
    'The broker root is `C2C_MCP_BROKER_ROOT`, else under `$XDG_STATE_HOME/c2c`, else under `~/.c2c`, each with ' +
    'the repository fingerprint.',
  'C2C-2':
    'The fingerprint is 12 hex digits of SHA-256 over the origin url, else the top-level path, else `default`, so ' +
    'clones and worktrees share one broker.',
  'C2C-3':
    'A broker root can be shared with the established c2c: inboxes are JSON arrays, guarded by `lockf` on a lock ' +
    'file and replaced by rename.',
  'C2C-4': '`registry.json` is an array of sessions, and fields it holds that we do not know survive a rewrite.',
  'C2C-5': 'Inboxes and registries are read whole at any size.',
  'C2C-6': '`C2C_MCP_SESSION_ID` names the inbox; without it the session id is found in the variables of the client.',
  'C2C-7':
    '`C2C_MCP_AUTO_REGISTER_ALIAS` gives a session the same alias after a restart and never takes it from a live ' +
    'session, which is told so.',
  'C2C-8': '`C2C_MCP_AUTO_JOIN_ROOMS` joins the listed rooms at start, and install sets it to `swarm-lounge`.',
  'C2C-9':
    '`C2C_MCP_AUTO_DRAIN_CHANNEL` is off and `C2C_MCP_CHANNEL_DELIVERY` on for Claude by default, and each can be ' +
    'switched.',
  'C2C-10':
    'An alias has 1 to 64 letters, digits, dots, underscores or hyphens, no leading dot, ignores case, and is not ' +
    '`c2c` or `c2c-system`.',
  'C2C-11':
    'An unknown recipient is refused with the nearest name, while mail for a known one that is not running is held.',

  // Inbox and sending
  'C2C-20':
    '`poll_inbox` archives every message with its send time, empties the inbox atomically and returns them; a ' +
    'crash at any step loses none.',
  'C2C-21':
    'A polled message has sender, recipient, content, time and id, and an envelope that names the recipient as ' +
    '`alias` and as `to`.',
  'C2C-22': '`peek_inbox` shows the inbox and leaves every byte of it unchanged.',
  'C2C-23': 'A body that imitates the envelope arrives as text of its real sender and opens no second message.',
  'C2C-24':
    'send, send_all, list, whoami, history and register exist as MCP tools and as commands, poll and peek as ' +
    'commands too, with JSON output.',
  'C2C-25':
    'Rooms can be joined, left, written to, listed and read back, and a member who was away catches up on return.',
  'C2C-26': '`c2c history --prune` removes old archive entries by age.',
  'C2C-27': 'The MCP server answers `initialize` promptly after its start and answers `ping`.',

  // Ways in
  'C2C-30':
    'Channel: mail is pushed as `notifications/claude/channel` at any time, only to a client that can show it, ' +
    'and stays until its arrival is evident.',
  'C2C-30b':
    'Channel: `C2C_MCP_FORCE_CAPABILITIES=claude_channel` turns pushing on by hand, and each copy is kept until ' +
    'the transcript shows it.',
  'C2C-31':
    'Hook: `c2c install claude` adds a PostToolUse hook beside all others; it puts waiting mail into ' +
    '`additionalContext` and costs only shell built-ins when empty.',
  'C2C-31b':
    'Hook: script, settings and MCP entry have fixed places; a call takes at most 5 s and 9,000 characters, ' +
    'claims just what it prints and counts the rest.',
  'C2C-32':
    'Terminal: mail is pasted in brackets and Enter follows as a delayed write of its own, in tmux or our PTY, ' +
    'only into a client that is idle with an empty composer.',
  'C2C-32b':
    'Terminal: a terminal that is neither tmux nor ours is reached by `pidfd_getfd` only when asked for, and ' +
    'refused with the reason over SSH or without the right.',
  'C2C-33':
    'Transcript: on request a well-formed user entry is appended under a lock to the transcript of a Claude ' +
    'session that is not running.',
  'C2C-34': 'Poll: polling the inbox works for every client.',
  'C2C-35':
    'Wake: a daemon sees new mail by file events and wakes the client with its sentinel, at most once per 15 s ' +
    'gap and never twice for the same set.',
  'C2C-35b':
    'Wake: each client has its own wake text, `c2c-deliver-inbox` names the daemon, and the first wake after ' +
    'quiet comes at once.',
  'C2C-35c': 'Heartbeat: if switched on, an idle session gets a heartbeat event at an interval.',
  'C2C-36':
    'Kimi wire: mail goes through a crash-safe spool into a `kimi --wire` started only for work, with retries, ' +
    'once, in a loop or as a managed daemon.',
  'C2C-37':
    'OpenCode: an installed plugin delivers mail by `promptAsync` as a user turn, driven by events, with polling ' +
    'as a safety net.',
  'C2C-37b':
    'OpenCode: the plugin is `c2c.ts` with a sidecar naming session, alias and broker, and a global beside a ' +
    'project copy delivers once.',
  'C2C-38':
    'Each client has a primary, a baseline and a fallback way in, and `doctor` says which one a session is on and ' +
    'why.',
  'C2C-39':
    '`c2c start`, `stop`, `restart` and `instances` manage clients in tmux or our PTY with session id, alias and ' +
    'wake loop kept.',

  // Install
  'C2C-40':
    '`c2c install` sets up Claude, Codex, OpenCode or Kimi; a second run changes no byte, and uninstall restores ' +
    'the files byte for byte.',
  'C2C-41':
    'A config file that cannot be parsed is refused by name and left alone, and comments and order of the others ' +
    'survive.',
  'C2C-42': 'Install lists every file it changed and keeps a backup of each.',

  // OpenCode statefile and plugin
  'C2C-50':
    '`c2c oc-plugin stream-write-statefile` reads UTF-8 JSON lines from stdin until it closes, however the bytes ' +
    'are split.',
  'C2C-51':
    'A snapshot replaces the state; a patch before the first snapshot of the same life is ignored with one warning.',
  'C2C-52':
    'A patch merges at every depth: objects recurse, scalars and arrays replace, null clears, and what is left ' +
    'out stays.',
  'C2C-53':
    'The state follows its schema with millisecond UTC times; what was not seen yet is null, and a created ' +
    'session focuses the prompt.',
  'C2C-54': '`turn_count` counts idles of the root session, `step_count` its creation, idles and permission events.',
  'C2C-55':
    'The root is the first root session created, or the first idle seen after a late start; other sessions never ' +
    'replace or touch it.',
  'C2C-56':
    '`pendingQuestion` holds the first question of a set, with a snapshot when it is asked and another when it is ' +
    'answered, rejected or timed out.',
  'C2C-57': 'The state stream never holds raw upstream payloads or prompt text.',
  'C2C-57b':
    '`last_step.details` is the session id for created and idle, and permission focus is exactly id, title and ' +
    'type, for old and new OpenCode events.',
  'C2C-58': 'The statefile can be parsed at any moment while it is being written, and `c2c statefile` prints it.',
  'C2C-59': 'A state writer that fails or dies stops nothing else and comes back after a pause with a new snapshot.',
  'C2C-60': 'The established OpenCode plugin runs unmodified against our `c2c` and gets every answer it expects.',
} as const;
