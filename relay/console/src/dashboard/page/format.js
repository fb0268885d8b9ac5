// Numbers, sizes and times for people.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { maximumFractionDigits: 1, notation: 'compact' });

export const count = (value, isEstimate) =>
  value === null || value === undefined ? '–' : `${isEstimate ? '≈ ' : ''}${whole.format(value)}`;
export const compact = (value) => short.format(value);
export const rate = (value) => (value < 10 ? compact(value) : count(value));

// In the units of PostgreSQL: powers of 1024.
export function bytes(value) {
  if (value === null || value === undefined) return '–';
  let [size, unit] = [Math.abs(value), 'B'];
  for (const next of ['kB', 'MB', 'GB', 'TB']) {
    if (size < 1024) break;
    [size, unit] = [size / 1024, next];
  }
  return `${size < 10 && unit !== 'B' ? size.toFixed(1) : Math.round(size)} ${unit}`;
}

// JSON as it was written, a value a line: only the blanks between values change. It may be cut off.
export function indented(json) {
  let depth = 0;
  const line = () => `\n${'  '.repeat(Math.min(depth, 40))}`;
  return json.replace(/"(?:[^"\\]|\\.)*"?|\{\s*\}|\[\s*\]|[{}[\],:]|\s+/gs, (part) => {
    if (part === '{' || part === '[') return (depth += 1, part + line());
    if (part === '}' || part === ']') return (depth = Math.max(depth - 1, 0), line() + part);
    if (part === ',') return part + line();
    if (part === ':') return ': ';
    return part.startsWith('"') ? part : part.replace(/\s/g, '');
  });
}

const UNITS = [['d', 86400], ['h', 3600], ['m', 60], ['s', 1]];

// An age in the two units that matter, as in the relay's own sentences: 0.2s, 45s, 3m 20s, 2h 5m, 6d 3h.
export function age(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds < 0) return `−${age(-seconds)}`; // clocks may differ
  if (seconds < 9.95) return `${Number(seconds.toFixed(1))}s`;
  const smallest = seconds < 3600 ? 1 : seconds < 86400 ? 60 : 3600;
  let rest = Math.round(seconds / smallest) * smallest;
  return UNITS.flatMap(([unit, length]) => {
    const whole = Math.floor(rest / length);
    rest -= whole * length;
    return whole > 0 ? [`${whole}${unit}`] : [];
  }).join(' ');
}

// A latency: below a second in finer units than an age.
export function latency(seconds) {
  if (!seconds || seconds >= 1) return age(seconds);
  return seconds < 0.001 ? `${Math.round(seconds * 1e6)}µs` : `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)}ms`;
}

export function ago(time) {
  if (!time) return '–';
  const seconds = Math.round((Date.now() - Date.parse(time)) / 1000);
  return seconds >= 0 ? `${age(Math.max(seconds, 1))} ago` : `in ${age(-seconds)}`;
}

// The browser's time zone at that time: UTC, UTC+1, UTC−3:30.
export function zone(date = new Date()) {
  const minutes = -date.getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return minutes === 0 ? 'UTC' : `UTC${minutes < 0 ? '−' : '+'}${hours}${rest > 0 ? `:${rest}` : ''}`;
}

export function moment(time) {
  if (!time) return '–';
  const date = new Date(time);
  const two = (number) => String(number).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:`
    + `${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')} ${zone(date)}`;
}

export const events = (value, isEstimate) => `${count(value, isEstimate)} ${value === 1 ? 'event' : 'events'}`;
