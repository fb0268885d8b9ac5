// Numbers, sizes and times for people.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { maximumFractionDigits: 1, notation: 'compact' });

export const count = (value, isEstimate) =>
  value === null || value === undefined ? '–' : `${isEstimate ? '≈ ' : ''}${whole.format(value)}`;
export const compact = (value) => short.format(value);

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

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds === 0) return '0s';
  if (seconds < 0) return `−${duration(-seconds)}`; // clocks may differ
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)}µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)}ms`;
  if (seconds < 10) return `${seconds.toFixed(1)}s`;
  if (seconds < 120) return `${Math.round(seconds)}s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)}h`;
  return `${Math.round(seconds / 86400)}d`;
}

export function ago(time) {
  if (!time) return '–';
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  return seconds >= 0 ? `${duration(Math.max(seconds, 1))} ago` : `in ${duration(-seconds)}`;
}

export function moment(time) {
  if (!time) return '–';
  const date = new Date(time);
  const two = (number) => String(number).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `
    + `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

export const events = (value, isEstimate) => `${count(value, isEstimate)} ${value === 1 ? 'event' : 'events'}`;
