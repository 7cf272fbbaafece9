import * as v from 'valibot';
import { readFileSync } from 'node:fs';
import { AgentName } from '../core/names.ts';
import { Refusal } from '../core/refusal.ts';
import { Schema } from '../core/schema.ts';
import { isMissing } from '../core/disk.ts';
import { changeTable } from '../platform/trust.ts';

/** The mailbox of each client. The client's settings file names only the client, so it stays as it is when the mailbox changes. */
const ClientBindings = new Schema(() => v.object({ v: v.literal(1), clients: v.record(v.string(), AgentName.inner) }));
export type ClientBindings = Readonly<Record<string, AgentName>>;

/** Reads `clients.json` of a Parley home; empty if there is none. spec: hook#bindings */
export function clientBindings(home: string): ClientBindings {
  const path = pathIn(home);
  try {
    return ClientBindings.parse(JSON.parse(readFileSync(path, 'utf8'))).clients;
  } catch (error) {
    if (isMissing(error)) return {};
    throw new Refusal('bad_config', `${path} cannot be read; remove it, then run \`parley install\` again`);
  }
}

/** The client that has this mailbox, if any. */
export function clientOf(bindings: ClientBindings, mailbox: string): string | undefined {
  return Object.keys(bindings).find((client) => bindings[client] === mailbox);
}

export function bindClient(home: string, client: string, mailbox: AgentName): void {
  change(home, (clients) => ({ ...clients, [client]: mailbox }));
}

export function unbindClient(home: string, client: string): void {
  if (!Object.hasOwn(clientBindings(home), client)) return;
  change(home, ({ [client]: _gone, ...rest }) => rest);
}

/**
 * The mailbox that a session of this name shares with the other sessions of its client. Undefined: the name is not a session's, the name was
 * asked for, or the client has a chosen mailbox that all its sessions use.
 */
export function sharedMailbox(home: string, name: AgentName): AgentName | undefined {
  try {
    const named = JSON.parse(readFileSync(`${home}/names/${name}.json`, 'utf8')) as { client: string; isChosen?: true };
    const { client, isChosen } = named;
    // Records of earlier versions lack `isChosen`, so the form of the name is checked, too.
    const isGiven = !isChosen && name.startsWith(`${client}.`);
    return isGiven && isShared(home, client) ? AgentName.parse(client) : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the sessions of this client have names of their own, and share the mailbox that has the client's name. */
export function isShared(home: string, client: string): boolean {
  try {
    return clientBindings(home)[client] === client;
  } catch {
    // The hook and `parley doctor` report a file that cannot be read.
    return false;
  }
}

function change(home: string, edit: (clients: ClientBindings) => ClientBindings): void {
  changeTable(pathIn(home), () => ({ v: 1, clients: edit(clientBindings(home)) }));
}

function pathIn(home: string): string {
  return `${home}/clients.json`;
}
