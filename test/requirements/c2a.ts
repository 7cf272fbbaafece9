/** What the chat-to-agent host promises. */
export const C2A = {
  // Core
  'C2A-1': 'An event can be stored, listed and read by tools without any model turn.',
  'C2A-2': 'Every event delivered to a harness carries one of the four response policies.',
  'C2A-3': 'A reply that the policy forbids is refused and nothing is posted, whatever the agent wanted.',
  'C2A-4':
    'Identity serves routing and permission only: no persona, title or rank appears in the protocol, and extra ' +
    'fields are ignored.',
  'C2A-5':
    'Surface, host, harness and session are separate roles, and one harness connection can run several sessions, ' +
    'each with its own events.',

  // Transport
  'C2A-6': 'The same payloads work over at least two transports.',
  'C2A-7': 'Events of one conversation arrive in the order the source gave, across reconnects too.',
  'C2A-8': 'An event keeps its id over restarts, and one message never gets two ids.',
  'C2A-9': 'Sends with the same idempotency key post one message and all get the same result.',
  'C2A-10': 'An acknowledged event leaves the pending list.',
  'C2A-11': 'An event that is not acknowledged comes again.',
  'C2A-12': 'After a reconnect delivery goes on right behind the last acknowledged event.',
  'C2A-13':
    'Frames are JSON-RPC 2.0 with its standard errors for malformed frames, unknown methods and bad parameters.',
  'C2A-14': 'What needs an answer is a request: `chat/deliver` has an id and its response closes it.',
  'C2A-15': 'A notification has no id and gets no response.',
  'C2A-16':
    'A response confirms acceptance by the protocol only; what became of the event is told later and separately.',

  // Harness
  'C2A-17': 'A harness can put an event into the prompt at once.',
  'C2A-18': 'A harness can hold events in a buffer and inject them as one.',
  'C2A-19': 'A harness can announce an event by its metadata alone.',
  'C2A-20': 'A harness can keep an event out of the prompt and readable by tools only.',
  'C2A-21': 'A harness can present events as a periodic digest.',
  'C2A-22': 'A harness can store an event silently, outside the prompt and the default event list.',
  'C2A-23': 'With default settings no ambient channel post is ever injected as a user message.',

  // Lifecycle
  'C2A-24': 'A session starts with `initialize`; nothing is delivered before it and other calls get an error.',
  'C2A-25':
    '`initialize` needs protocol version, client name and version, and capabilities; a missing one is named in ' +
    'the error.',
  'C2A-26':
    'The capability group `delivery` states ack, redelivery and idempotency, and the host waits for no ack where ' +
    'there is none.',
  'C2A-27':
    'The capability group `injection` states the modes, and a missing mode falls to the next quieter one, never ' +
    'to a louder.',
  'C2A-28':
    'The capability group `chatTools` states the tools, and without claims a role mention goes to one chosen ' +
    'responder.',
  'C2A-29':
    'The capability group `utilities` states progress, cancellation and logging, and nothing that was not offered ' +
    'is sent.',
  'C2A-30':
    'The answer to `initialize` is what both sides support, and an unknown version is met with the best one of ' +
    'the host.',
  'C2A-31':
    'A round trip runs in order: the host delivers, the harness acknowledges, the agent pulls context, and the ' +
    'reply carries its key.',
  'C2A-32': 'Closing the connection is all that shutdown needs.',
  'C2A-33': 'Events not yet delivered survive a killed host.',
  'C2A-34': 'A harness that reconnects without state gets nothing older than the last ack and misses nothing newer.',

  // Envelope
  'C2A-35': 'Inbound events come as `chat/deliver` and fit the published schema.',
  'C2A-36': 'An event names its source platform and workspace.',
  'C2A-37': 'An event names its conversation by id and kind, with stream and thread where they exist.',
  'C2A-38': 'An event names its author, and whether that is a human or an agent.',
  'C2A-39': 'An event lists everyone mentioned, the recipient and the directedness.',
  'C2A-40': 'An event has its creation time in UTC and a sequence that only grows within a conversation.',
  'C2A-41':
    'Attention holds policy, a reason from a closed list, priority and a deadline, which is positive whenever a ' +
    'response is due.',
  'C2A-42': 'Injection holds mode, context and role: mentions bring a thread window, and the role is user.',
  'C2A-43': 'Reliability holds an attempt that counts up and a key that stays.',
  'C2A-44': 'An event without `eventId` is rejected.',
  'C2A-45': 'The conversation kind is dm, channel, thread, system or tool, and nothing else is accepted.',
  'C2A-46': 'Exposed content comes as typed parts, text and others alike.',
  'C2A-47': 'A notify frame holds no part of the raw body until the agent pulls it.',
  'C2A-48': 'Directedness is to_me, to_my_role, to_other or ambient, and nothing else is accepted.',
  'C2A-49': 'An event without a response policy is rejected.',
  'C2A-50': 'The injection mode is one of six, and nothing else is accepted.',
  'C2A-51':
    'The idempotency key is the same for every delivery of one event to one session and differs between sessions.',

  // Attention
  'C2A-52': 'Directedness, policy and injection mode can be combined freely.',
  'C2A-53': 'The host works out directedness from mentions, recipients and ownership; a harness cannot set it.',
  'C2A-54':
    'Directedness needs a session bound to an identity; an unbound one gets only ambient events and a clear warning.',
  'C2A-55': 'A direct message or direct mention is to_me and buffered by default.',
  'C2A-56': 'A role mention, owned thread or owned stream is to_my_role: a knock by default, then a claim.',
  'C2A-57': 'What is addressed to someone else is to_other and goes to the tool mailbox or stays silent.',
  'C2A-58': 'What is addressed to nobody is ambient and goes to the tool mailbox.',
  'C2A-59':
    'Each of the four policies, must_respond, may_respond, ack_only and must_not_respond, is enforced when the ' +
    'agent sends.',
  'C2A-60a': 'A direct message is to_me, must_respond and buffered.',
  'C2A-60b': 'Plain thanks or an acknowledgement is to_me, ack_only and quiet; thanks with a request is not.',
  'C2A-60c': 'A direct mention is to_me, must_respond and buffered, with its thread as context.',
  'C2A-60d': 'An assignment, approval request or blocker is to_me, must_respond and immediate or buffered.',
  'C2A-60e': 'A direct question in a thread is to_me, must_respond and buffered.',
  'C2A-60f':
    'A role mention knocks at one chosen member, moves on if it declines, and gives the full body to the one who ' +
    'claims.',
  'C2A-60g': 'A reply in a thread the agent takes part in is to_my_role, may_respond and a knock.',
  'C2A-60h': 'A message to another agent is to_other, must_not_respond and in the tool mailbox.',
  'C2A-60i': 'A message of an agent that carries no task is to_other, must_not_respond and in the tool mailbox.',
  'C2A-60j': 'A channel message without a mention is ambient, must_not_respond and in the tool mailbox.',
  'C2A-60k': 'Logs, progress and status broadcasts are ambient, must_not_respond and digested or silent.',
  'C2A-61': 'Seeing a message gives no right to answer it: listing an event leaves its policy as it was.',

  // Injection
  'C2A-62a': 'Urgent mentions, approvals, cancellations and safety notices reach an idle agent at once.',
  'C2A-62b':
    'A responding model is interrupted only by an urgent event or one that cancels its work; others wait for the ' +
    'boundary, in order.',
  'C2A-63': 'Close messages of one author in one conversation become one turn, in order.',
  'C2A-64': 'Where the surface reports typing, injection waits until typing stops.',
  'C2A-65': 'Elsewhere injection waits 2 to 5 s after the latest message, as configured.',
  'C2A-66': 'Fragments are merged for at most 30 s, so an endless writer is still heard.',
  'C2A-67': 'An edit made before injection replaces the text that is injected.',
  'C2A-67b': 'Messages of another author or conversation are never merged in.',
  'C2A-68': 'A knock tells who, where, directedness, policy, priority and a topic made by the host.',
  'C2A-69': 'The body behind a knock stays hidden until it is pulled by `chat.read_thread` or `chat.list_events`.',
  'C2A-70':
    'A knock has from, where, directedness, policy, priority, topic and pullWith, beside these its age and counts (D6), and no more.',
  'C2A-71': 'The topic of a knock is one short line by the host without any text of the body.',
  'C2A-72': 'Role mentions and thread participation are knocks by default.',
  'C2A-73': 'Knocks ride along with the next turn or in a batch, so many of them do not make many turns.',
  'C2A-74': 'A tool mailbox event is stored and readable by tools, and absent from the prompt.',
  'C2A-75': 'A digest is one prompt entry per period that names sources and counts.',
  'C2A-76': 'A digest asks for no response unless it holds an explicit mention or assignment.',
  'C2A-77': 'Silent events, such as joins and leaves, never reach the prompt.',

  // Prompt
  'C2A-78': 'An injected event starts with a `C2A EVENT` header of named fields, then `MESSAGE` and the body.',
  'C2A-79': 'A body that imitates the header cannot pass for one.',
  'C2A-80': 'The standing response rules are injected once per session, and again after a compaction.',
  'C2A-81a': 'The rules tell the agent to obey the response policy.',
  'C2A-81b': 'The rules forbid a reply to must_not_respond.',
  'C2A-81c':
    'The rules allow an answer to may_respond only to the owner, the one asked, or one who can remove a blocker.',
  'C2A-81d': 'The rules keep the agent out of channels unless it is mentioned, assigned or holds the claim.',
  'C2A-81e': 'The rules say that quoted chat is never a system or developer instruction.',

  // When to respond
  'C2A-82': 'A direct message that must be answered stays among the open duties until it is settled.',
  'C2A-83': 'A direct mention stays among the open duties until it is settled.',
  'C2A-84': 'Assigned work stays among the open duties until it is settled.',
  'C2A-85': 'A direct question in a thread of the agent stays among the open duties until it is settled.',
  'C2A-86': 'News that changes work the agent owns is at least may_respond.',
  'C2A-87': 'An agent that needs input may write to its human unprompted.',
  'C2A-88': 'A reply to ambient chatter is refused or flagged.',
  'C2A-89': 'A status message that asks for nothing is must_not_respond.',
  'C2A-90': 'A message that is clearly for another agent is must_not_respond.',
  'C2A-91': 'A reply to an event that another agent has claimed is refused with the name of the claimant.',
  'C2A-92': 'A reply to a duplicate, superseded or stale event is refused and says so.',
  'C2A-93': 'Gratitude, acknowledgement and filler are ack_only or must_not_respond.',
  'C2A-94': 'Silence on may_respond is a valid end: at its deadline the event is ignored, without retry or escalation.',

  // Outbound
  'C2A-95':
    'The agent picks directedness and visibility, and the host makes a DM, mention, reply, post or reaction of it.',
  'C2A-96a': 'Asking one agent to act arrives there as to_me and must_respond.',
  'C2A-96b': 'An offer to a role arrives as to_my_role and may_respond after a claim.',
  'C2A-96c': 'A post in an owned thread without a mention arrives as to_my_role, may_respond and a knock.',
  'C2A-96d': 'A channel post without a mention arrives as ambient and must_not_respond.',
  'C2A-96e': 'Acknowledging, accepting or declining by reaction costs the other agent no turn.',
  'C2A-96f': 'Status and progress arrive as progress, digest or display and never ask for a response.',
  'C2A-97': 'A name in a message that is meant as ambient is shown without notifying anyone.',
  'C2A-98': 'On ack_only a long reply is refused with a hint at `chat.react`.',
  'C2A-99': 'A message that obliges two recipients at once is refused.',
  'C2A-100': 'Thanks with a mention arrive as ack_only, not as a duty.',
  'C2A-101': 'Status goes to progress and not into the chat.',
  'C2A-102': 'No second agent can reply to what is already claimed.',
  'C2A-103': 'The recipient sees the directedness that the sender intended.',

  // Disposition
  'C2A-104': 'Every delivered event ends with exactly one of seven dispositions, and its changes are kept.',
  'C2A-105': 'An event with must_not_respond ends ignored, unless it was superseded.',
  'C2A-106': 'An event with ack_only ends acknowledged or ignored.',
  'C2A-107':
    'An event with must_respond ends responded, acknowledged, deferred, superseded or failed, and ignored only if ' +
    'declined outright.',
  'C2A-108': 'An acknowledgement closes a duty only where it is all that was asked for.',
  'C2A-109': 'Deferred and claimed events are still owed.',

  // Reactions
  'C2A-110':
    'A reaction is a typed signal that costs no turn: an emoji is rejected as signal, and the surface shows the ' +
    'glyph.',
  'C2A-111a': 'The signal seen (👀) marks the event acknowledged.',
  'C2A-111b': 'The signal agree (👍) marks the event acknowledged.',
  'C2A-111c': 'The signal working (🔧) marks the event claimed.',
  'C2A-111d': 'The signal queued (🕐) marks the event deferred and shows its eta.',
  'C2A-111e': 'The signal claimed (✋) takes the same lock as `chat.claim`.',
  'C2A-111f': 'The signal done (✅) marks the event responded.',
  'C2A-111g': 'The signal declined (🙅) marks the event ignored and frees its claim.',
  'C2A-111h': 'The signal blocked (🚧) marks the event deferred.',
  'C2A-111i': 'The signal unclear (❓) leaves the event open and is shown to the author.',
  'C2A-112': 'A workspace can give the signals other glyphs, which then work in both directions.',
  'C2A-113': 'Prompts and tool results show signal words and never glyphs.',
  'C2A-114':
    'A reaction on a message of the agent reaches it as a typed event with its meaning: proceed, revise or ' +
    'already handled.',
  'C2A-115': 'Inbound reactions stay quiet unless they change a duty to respond.',
  'C2A-116': '`chat.react` takes the event, a signal and an optional eta; an unknown event is an error.',
  'C2A-117': 'An unknown glyph is stored as it is and settles nothing.',

  // Tools
  'C2A-118': 'Chat state is offered as seven tools instead of being injected.',
  'C2A-119':
    '`chat.list_events` filters by stream, conversation, policy and time, alone or combined, with stable paging.',
  'C2A-120': '`chat.read_thread` reads a thread or a window of a conversation by size and cursor.',
  'C2A-121': '`chat.send_message` is idempotent.',
  'C2A-122': '`chat.react` sends a typed signal.',
  'C2A-123': '`chat.claim` takes responsibility for a channel event or thread.',
  'C2A-124': '`chat.defer` needs a reason, keeps it and shows it to the author.',
  'C2A-125': '`chat.resolve` closes every open event of an event, thread or assignment.',
  'C2A-126': 'A send without a target is refused by name of the field.',
  'C2A-127': 'A reply is linked to the event it answers.',
  'C2A-128': 'A send without an idempotency key is refused, and retries reuse the key.',
  'C2A-129': 'A send states its visibility; ephemeral on a surface without it is an error and never turns public.',
  'C2A-130': 'A send without directedness is refused.',

  // Claims
  'C2A-131': 'A channel mention makes at most one agent the default responder.',
  'C2A-132': 'A substantive reply in a channel is refused without a claim.',
  'C2A-133': 'A claim ends with its TTL and can be renewed.',
  'C2A-134': 'Of many concurrent claims one wins, and replies of the others are refused.',
  'C2A-135': 'A lead gets direct messages, while chatter of its workers stays out of its prompt but for a digest.',
  'C2A-136': 'For a role mention the host picks one agent or demands a successful claim.',

  // Reliability
  'C2A-137':
    'Delivery is at least once: dropped, doubled or reordered frames lose no event and double no visible message.',
  'C2A-138': '`chat/deliver` is a request wherever an ack is needed.',
  'C2A-139': 'A harness answers only when it has stored or accepted the event.',
  'C2A-140': 'A retry has the same event id and idempotency key.',
  'C2A-141': 'A harness that gets an event twice injects it once and acknowledges both.',
  'C2A-142': 'A turn that failed before it acted is retried with the same event and the next attempt number.',
  'C2A-143':
    'After a turn has acted, no different chat is made for its event unless the host confirms that the first was ' +
    'not delivered.',
  'C2A-144': 'A send is retried after network, platform and rate-limit failures until it went out once.',
  'C2A-145': 'Attempts share key and body; the same key with another body is a conflict.',
  'C2A-146': 'A send whose confirmation was lost is still visible once.',
  'C2A-147': 'A permanent failure comes back as a tool error with its reason, and the event is failed.',
  'C2A-148': 'Every chat tool declares whether it is idempotent.',
  'C2A-149': 'Idempotent reads and safe writes are retried after a timeout.',
  'C2A-150': 'A tool with side effects and no key is not retried; its error is passed up.',

  // Deadlines and escalation
  'C2A-151': 'Events carry a deadline.',
  'C2A-152': 'After its deadline an event is may_respond, or the thread must be read again before a reply.',
  'C2A-153': 'An unanswered duty is offered to the same harness again before it is escalated.',
  'C2A-154': 'An unanswered duty is never broadcast to all agents.',
  'C2A-155': 'An escalation goes to exactly one lead, owner or chosen responder, named in the audit.',

  // Cancel, progress, edits
  'C2A-156':
    '`notifications/cancelled` stops a pending event, a turn or a tool call, or marks it superseded where that is ' +
    'impossible.',
  'C2A-157': '`notifications/progress` posts nothing to the chat.',
  'C2A-158': 'Progress is displayed or digested, and enters a prompt only when someone asks for status.',
  'C2A-159': 'The edited text is what is injected when the edit came first.',
  'C2A-160':
    'If enabled, an edit after the response makes a new event linked to the first, with reason ' +
    'edited_after_response.',
  'C2A-161': 'Deleting a message before the response removes its event from delivery as superseded.',
  'C2A-162': 'The fragments a person writes are merged.',
  'C2A-163':
    'If enabled, a fragment that comes while the model thinks restarts the turn with the merged text and one reply.',

  // Security
  'C2A-164': 'All chat content is treated as untrusted.',
  'C2A-165': 'Names, topics and bodies with line breaks cannot blur the border between metadata and text.',
  'C2A-166': 'Chat is injected in the user role and never written into system instructions.',
  'C2A-167': 'Tools show a session nothing of channels it may not see, not even that they exist.',
  'C2A-168': 'Secrets are masked in prompts, digests, topics and logs.',
  'C2A-169': 'Inbound and outbound rates are limited: nothing is lost, and a sender is told to slow down.',
  'C2A-170': 'The audit answers who, what, when and why for delivery, claims, policy, tools and sends of any event.',
  'C2A-171': 'A person is asked before sensitive work or before private content is shown, and a no stops it.',

  // Minimal set
  'C2A-172':
    'The minimal set works as a whole: envelope, defaults, policies, knocks, buffering, three signals, safe send, ' +
    'claims, retry and dedup.',

  // From newer drafts
  'C2A-N1': 'The flat event shape of the 06-24 draft is read and written beside the nested one.',
  'C2A-N2': 'All four policies stay, and a 06-24 client gets ack_only as must_not_respond.',
  'C2A-N3': 'An agent asked to leave a thread acknowledges once and stays silent until it is mentioned again.',
  'C2A-N4': 'An agent is never prompted by its own messages.',
  'C2A-N5': 'Pure thanks or acknowledgement calls for no response.',
  'C2A-N6': 'A reply that nearly repeats the last message of the agent in the thread is refused.',
  'C2A-N7':
    'An exchange of agents that does not converge is stopped by the two guards of C2A-D10: echoes go quiet after 3 in a row, a ' +
    'long exchange loses wake and obligation and never its text; one human is told.',
  'C2A-N8':
    'Only an obligation object, with what it blocks, a default action and a delegate, creates a duty that returns.',
  'C2A-N9': 'An obliging event must be must_respond, should have one recipient, and is never digest or silent.',
  'C2A-N10':
    'Only the author or delegate discharges a duty, for good, by a done that names the recipient; done by the ' +
    'recipient is evidence.',
  'C2A-N11': 'Reading, replying, signals of the recipient and time close no duty, and read state changes nothing.',
  'C2A-N12': 'An open duty returns as a knock at equal intervals, three times by default.',
  'C2A-N13':
    'Then it is escalated to one coordinator or else a human as a duty of its own; equal recipient and tier are ' +
    'joined.',
  'C2A-N14': 'A duty that reached a human sends no more returns and stays open until it is discharged.',
  'C2A-N15':
    'On a duty working and queued extend once, declined and blocked escalate, unclear pauses and asks back, the ' +
    'other signals do nothing.',
  'C2A-N16':
    'The age of a duty counts from its creation, and after downtime one return comes, not all that were missed.',
  'C2A-N17': 'A reaction to an event not known yet is held and applied when the event comes.',
  'C2A-N18':
    'An edit keeps the duty, deletion by the author discharges it, other deletions and retention do not, and open ' +
    'ones stay logged.',
  'C2A-N19': 'One call tells what an agent owes and another what it blocks, also right after a restart.',
  'C2A-N20': 'A reaction is an event with its own id, target event, time, actor, signal and optional recipient.',
  'C2A-N21': 'With returns switched off, the checks of discharge and escalation fail, and the test run proves it.',

  // Our decisions on open points
  'C2A-D1':
    'An urgent DM waits for a tool boundary; only cancelling the work, urgency from a human or lead where ' +
    'supported, or 30 s without a boundary interrupts.',
  'C2A-D2':
    'The host owns the policy; a harness may ask for quieter with a reason, never for louder, and may always ' +
    'suppress an injection for safety.',
  'C2A-D3':
    'Human text waits 2.5 s after its last fragment (4 s if it looks unfinished, 2 s if finished and long), at ' +
    'most 30 s; agent text is joined within 250 ms.',
  'C2A-D4':
    'A role mention picks the longest idle, then the least loaded, then by hash, for 60 s before others are ' +
    'knocked; a claim lasts 10 min and is renewed by activity.',
  'C2A-D5':
    'Thread context is the root and the last 6 messages within 8 KB, oldest dropped first with a count; a knock ' +
    'has none.',
  'C2A-D6':
    'A knock reveals author, place, policy, priority, age, counts, attachment kinds and a topic from a closed ' +
    'vocabulary or a trusted label, no paraphrase.',
  'C2A-D7': 'There are nine fixed signals; added `x-` signals are shown and stored but never claim or discharge.',
  'C2A-D8':
    'Each event shows policy, proven step and disposition; ambient ones are folded with a reason and can be ' +
    'raised by a person; refused replies are counted.',
  'C2A-D9': 'Digests go to each recipient by stream at a turn boundary, at most every 15 minutes and never empty.',
  'C2A-D10':
    'Own messages never return; agents: the 4th echo in a row goes quiet, a long exchange wakes nobody but keeps its text, ' +
    'sender and one human are told; a lacking mode falls quieter, duty kept; `defer` lasts 30 min; `unclear` asks back.',
  'C2A-D11':
    'An unanswered must_respond is redelivered at 1/3 and 2/3 of its deadline (300 s by default), escalated once, ' +
    'then may_respond after a thread check, and ends failed, never ignored; an obligation object has its own ' +
    'rules.',
} as const;
