/** What the relay counts, in the text form of Prometheus. spec: relay#metrics */
export class Figures {
  readonly #answers: { route: string; status: number; count: number }[] = [];
  readonly #startedAt: number;
  #busyMs = 0;
  accepted = 0;
  copies = 0;
  taken = 0;
  expired = 0;
  failedLogins = 0;
  limited = 0;

  constructor(now: number) {
    this.#startedAt = now;
  }

  answered(route: string, status: number, ms: number): void {
    this.#busyMs += ms;
    const known = this.#answers.find((one) => one.route === route && one.status === status);
    if (known) known.count += 1;
    else this.#answers.push({ route, status, count: 1 });
  }

  text(now: { at: number; listeners: number; cut: number; rooms: number }): string {
    const rows: [name: string, kind: 'counter' | 'gauge', help: string, value: number][] = [
      ['uptime_seconds', 'gauge', 'Since the relay started.', Math.round((now.at - this.#startedAt) / 1000)],
      ['request_seconds_total', 'counter', 'Time spent on requests.', this.#busyMs / 1000],
      ['messages_accepted_total', 'counter', 'Messages that were sent and stored.', this.accepted],
      ['copies_stored_total', 'counter', 'Copies of them, one per recipient.', this.copies],
      ['messages_taken_total', 'counter', 'Copies that were taken or settled.', this.taken],
      ['messages_expired_total', 'counter', 'Copies that nobody took in time.', this.expired],
      ['failed_logins_total', 'counter', 'Requests without a good token.', this.failedLogins],
      ['limited_total', 'counter', 'Requests refused by a rate or a quota.', this.limited],
      ['listeners', 'gauge', 'Open event streams.', now.listeners],
      ['listeners_cut_total', 'counter', 'Streams that were cut because their reader took nothing.', now.cut],
      ['rooms_open', 'gauge', 'Rooms that somebody has entered.', now.rooms],
      ['resident_memory_bytes', 'gauge', 'Memory of the process.', process.memoryUsage.rss()],
    ];
    const answers = this.#answers.map(
      ({ route, status, count }) => `parley_relay_answers_total{route="${route}",status="${status}"} ${count}`,
    );
    return [
      '# HELP parley_relay_answers_total Answers by route and status.',
      '# TYPE parley_relay_answers_total counter',
      ...answers,
      ...rows.flatMap(([name, kind, help, value]) => [
        `# HELP parley_relay_${name} ${help}`,
        `# TYPE parley_relay_${name} ${kind}`,
        `parley_relay_${name} ${value}`,
      ]),
      '',
    ].join('\n');
  }
}
