const THIS_MACHINE = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/** True for an origin of this machine at this port. An origin without a port is another server, on port 80 or 443. */
export function isOurOrigin(origin: string, port: number): boolean {
  const [, scheme, host = ''] = /^(https?):\/\/(.*)$/.exec(origin) ?? [];
  const usual = scheme === 'https' ? 443 : 80;
  return isThisMachine(host, port) && (/:\d+$/.test(host) || port === usual);
}

/** True for a `Host` that is one of this machine's own names for itself, at this port. */
export function isThisMachine(host: string, port: number): boolean {
  const [, name = '', given] = /^(.*?)(?::(\d+))?$/.exec(host) ?? [];
  return THIS_MACHINE.test(name) && (given === undefined || Number(given) === port);
}
