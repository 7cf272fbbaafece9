/**
 * Scope matching, exactly as other Backchannel programs do it: normalise both, then plain containment.
 * The order of the replacements is part of the protocol. spec: message#scope
 */
export function normaliseScope(scope: string): string {
  return scope
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/^git@/, '')
    .replace(/\.git$/, '')
    .replace(/\/+$/, '')
    .replaceAll(':', '/');
}

/** True if a reader who works in `context` may claim a message with this scope. Unscoped mail is for every context. */
export function scopeMatches(scope: string | undefined, context: string | undefined): boolean {
  if (!scope) return true;
  if (!context) return false;
  return normaliseScope(context).includes(normaliseScope(scope));
}
