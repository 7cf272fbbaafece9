import type { Duty } from '../../protocol/duty.ts';
import type { AgentName, MessageId } from '../../protocol/names.ts';
import type { Duties, DutyPage, EventClaim, SessionRecord, UnenteredCopy } from './duties.ts';
import { afterChange, claimAfter, goneBack, NOBODY_WAITS, numberAt, placeOf, readable } from './duty-rules.ts';
import type { CopyRecord } from './ledger.ts';
import { MemoryLate } from './memory-late.ts';
import type { Row } from './memory-records.ts';

/** Duties, claims and sessions of the memory ledger. */
export class MemoryDuties extends MemoryLate implements Duties {
  readonly #duties = new Map<string, Duty>();
  readonly #claims = new Map<MessageId, EventClaim>();
  readonly #sessions = new Map<string, SessionRecord>();
  /** The place up to which duties were entered. */
  #entered = 0;

  async unentered(limit: number): Promise<{ from: number; upTo: number; copies: UnenteredCopy[] }> {
    const from = this.#entered;
    const copies: UnenteredCopy[] = [];
    let last = numberAt(from);
    for (const row of this.rows.filter(({ seq }) => seq > numberAt(from))) {
      const owed = this.copiesOf(row.message.id).filter((copy) => this.#mayOwe(copy));
      if (copies.length > 0 && copies.length + owed.length > limit) break;
      const alone = (await this.exchange(row.message.parley?.lineage?.root ?? row.message.id, 2)).every(
        ({ id }) => id === row.message.id,
      );
      copies.push(...owed.map((copy) => ({ copy, message: row.message, alone })));
      last = row.seq;
    }
    return structuredClone({ from, upTo: placeOf(last, from), copies });
  }

  async enter(from: number, upTo: number, duties: Duty[]): Promise<boolean> {
    if (this.#entered !== from) return false;
    // As one act: what cannot be kept is found out before anything is.
    for (const duty of structuredClone(duties)) this.#add(duty);
    this.#entered = upTo;
    return true;
  }

  async addDuty(duty: Duty): Promise<boolean> {
    return this.#add(structuredClone(duty));
  }

  async duty(mailbox: AgentName, id: MessageId): Promise<Duty | null> {
    return structuredClone(this.#duties.get(nameOf(mailbox, id)) ?? null);
  }

  async owed(mailbox: AgentName, page: DutyPage): Promise<Duty[]> {
    return this.#page(page, (duty) => duty.mailbox === mailbox);
  }

  async blocking(from: AgentName, page: DutyPage): Promise<Duty[]> {
    return this.#page(page, (duty) => duty.from === from);
  }

  async owedCount(mailbox: AgentName, most: number): Promise<number> {
    const count = this.#open().filter((duty) => duty.mailbox === mailbox).length;
    return Math.max(0, Math.min(most, count));
  }

  async dueDuties(now: number, limit: number): Promise<Duty[]> {
    const due = this.#open().filter((duty) => duty.due !== null && duty.due <= now);
    return structuredClone(due.sort((a, b) => (a.due ?? 0) - (b.due ?? 0) || (a.id < b.id ? -1 : 1)).slice(0, limit));
  }

  async nextDue(): Promise<number | null> {
    const times = this.#open().flatMap(({ due }) => (due === null ? [] : [due]));
    return times.length > 0 ? Math.min(...times) : null;
  }

  async changeDuty(mailbox: AgentName, id: MessageId, change: (duty: Duty) => Duty | null): Promise<Duty | null> {
    const duty = this.#duties.get(nameOf(mailbox, id));
    if (!duty) return null;
    const next = structuredClone(afterChange(duty, change) ?? duty);
    this.#duties.set(nameOf(mailbox, id), next);
    return structuredClone(next);
  }

  async claimEvent(claim: EventClaim, now: number): Promise<EventClaim> {
    const stands = { ...claimAfter(this.#claims.get(claim.key) ?? null, claim, now) };
    this.#claims.set(claim.key, stands);
    return { ...stands };
  }

  async eventClaim(key: MessageId, now: number): Promise<EventClaim | null> {
    const claim = this.#claims.get(key);
    return claim && claim.until > now ? { ...claim } : null;
  }

  async freeClaim(key: MessageId, holder: AgentName): Promise<boolean> {
    return this.#claims.get(key)?.holder === holder && this.#claims.delete(key);
  }

  async claimsOf(holder: AgentName, now: number): Promise<EventClaim[]> {
    const held = [...this.#claims.values()].filter((claim) => claim.holder === holder && claim.until > now);
    return structuredClone(held.sort((a, b) => a.until - b.until || (a.key < b.key ? -1 : 1)));
  }

  async saveSession(session: SessionRecord): Promise<void> {
    this.#sessions.set(session.id, structuredClone(session));
  }

  async session(id: string): Promise<SessionRecord | null> {
    return structuredClone(this.#sessions.get(id) ?? null);
  }

  async sessions(): Promise<SessionRecord[]> {
    return structuredClone([...this.#sessions.values()].sort((a, b) => (a.id < b.id ? -1 : 1)));
  }

  async dropSession(id: string): Promise<void> {
    this.#sessions.delete(id);
  }

  /** A copy was found of a message that may have been looked at already. */
  protected enterAgain(seq: number): void {
    this.#entered = goneBack(this.#entered, seq);
  }

  /** Somebody is obliged by this message, was so after this time, or may be so as soon as it is entered. */
  protected isOwedSince({ seq, message }: Row, ms: number): boolean {
    if (seq > numberAt(this.#entered) && message.parley?.obligation) return true;
    const isKept = ({ kind, ended }: Duty): boolean => kind === 'obligation' && (!ended || ended.at >= ms);
    return [...this.#duties.values()].some((duty) => duty.id === message.id && isKept(duty));
  }

  protected override drop(rows: Row[]): number {
    const ids = new Set(rows.map(({ message }) => message.id));
    for (const [name, { id }] of this.#duties) if (ids.has(id)) this.#duties.delete(name);
    for (const id of ids) this.#claims.delete(id);
    return super.drop(rows);
  }

  protected dropSpent(facts: number, now: number): void {
    for (const [name, { id, ended }] of this.#duties) {
      if (ended && ended.at < facts && !this.row(id)) this.#duties.delete(name);
    }
    for (const [key, { until }] of this.#claims) if (until <= now) this.#claims.delete(key);
    for (const [id, { seen }] of this.#sessions) if (seen < facts) this.#sessions.delete(id);
  }

  protected forgetDuties(agent: AgentName, now: number): void {
    for (const [name, duty] of this.#duties) {
      const awaited = duty.kind === 'obligation' && !duty.ended && duty.from !== duty.mailbox;
      if (duty.mailbox === agent && !awaited) this.#duties.delete(name);
      else if (duty.mailbox === agent) {
        Object.assign(duty, { state: 'open', note: null, due: duty.due === null ? null : Math.min(duty.due, now) });
      } else if (duty.from === agent) duty.ended ??= { ...NOBODY_WAITS, at: now };
    }
    for (const [key, { holder }] of this.#claims) if (holder === agent) this.#claims.delete(key);
    for (const session of this.#sessions.values()) {
      if (!session.identities.includes(agent)) continue;
      session.identities = session.identities.filter((name) => name !== agent);
      if (session.identities.length === 0) this.#sessions.delete(session.id);
    }
  }

  #mayOwe({ mailbox, id, attention }: CopyRecord): boolean {
    return attention.policy === 'must_respond' && !this.#duties.has(nameOf(mailbox, id));
  }

  #add(duty: Duty): boolean {
    const name = nameOf(duty.mailbox, duty.id);
    if (this.#duties.has(name)) return false;
    this.#duties.set(name, readable(duty));
    return true;
  }

  #open(): Duty[] {
    return [...this.#duties.values()].filter(({ ended }) => !ended);
  }

  #page({ after, limit }: DutyPage, fits: (duty: Duty) => boolean): Duty[] {
    const found = this.#open().filter((duty) => fits(duty) && (!after || isAfter(duty, after)));
    return structuredClone(found.sort((a, b) => (isAfter(a, b) ? 1 : -1)).slice(0, limit));
  }
}

function nameOf(mailbox: AgentName, id: MessageId): string {
  return `${mailbox}/${id}`;
}

function isAfter(duty: Duty, { at, id, mailbox }: NonNullable<DutyPage['after']>): boolean {
  if (duty.at !== at) return duty.at > at;
  if (duty.id !== id) return duty.id > id;
  return mailbox !== undefined && duty.mailbox > mailbox;
}
