import * as z from 'zod/mini';

/** A mailbox name. It becomes a folder and a file name, so nothing that could leave its folder passes. spec: message#names */
export const AgentName = z
  .string()
  .check(z.regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, 'use letters, digits, . _ -'))
  .brand<'AgentName'>();
export type AgentName = z.infer<typeof AgentName>;

/** `#name`, as stored on the records of those who subscribed. spec: message#names */
export const ChannelName = z
  .string()
  .check(z.regex(/^#[\p{L}\p{N}][\p{L}\p{N}._-]{0,127}$/u, 'use # and letters, digits, . _ -'))
  .brand<'ChannelName'>();
export type ChannelName = z.infer<typeof ChannelName>;

/** Any id that is safe as a file name is accepted from others; ours are UUIDs, version 4. spec: message#ids */
export const MessageId = z
  .string()
  .check(z.regex(/^[A-Za-z0-9._-]{1,128}$/, 'use letters, digits, . _ -'))
  .brand<'MessageId'>();
export type MessageId = z.infer<typeof MessageId>;

/** A sender's own name for one send; the same key again is the same message. spec: message#keys */
export const SendKey = z
  .string()
  .check(z.regex(/^[^\p{Cc}]{1,200}$/u, 'use 1 to 200 characters, none of them a control character'))
  .brand<'SendKey'>();
export type SendKey = z.infer<typeof SendKey>;

/** Which of the recipient's contexts is meant, usually a repository. It is never a path of ours. spec: message#scope */
export const Scope = z
  .string()
  .check(
    z.regex(/^[^\p{Cc}]{1,512}$/u, 'use one line of at most 512 characters'),
    z.refine((text) => !text.split(/[/\\]/).includes('..'), 'leave out the ".." part'),
  )
  .brand<'Scope'>();
export type Scope = z.infer<typeof Scope>;
