// The spelling of topics: what people write here is the canonical one, with
// slashes; WAMP writes URIs. The rules are those of package routing.

const coded = (c) => Array.from(new TextEncoder().encode(c), (b) => '%' + b.toString(16).toUpperCase().padStart(2, '0')).join('');
const whiteSpace = ['\t', '\n', '\v', '\f', '\r', ' ', '\u0085', '\u00a0', '\u1680',
  ...Array.from({ length: 11 }, (_, i) => String.fromCharCode(0x2000 + i)), '\u2028', '\u2029', '\u202f', '\u205f', '\u3000'];

// alphabet is a closed set of codes; any other percent sign is ordinary.
class Alphabet {
  constructor(inner, whole) {
    this.plain = new Map(inner.map((c) => [coded(c).slice(1), c]));
    const hexes = [...this.plain.keys()].sort((a, b) => b.length - a.length).join('|');
    this.token = new RegExp(`%((?:25)*)(${hexes})`, 'g');
    this.inner = new Set(inner);
    this.whole = whole; // the code of an empty level, if there is one
    this.wholeToken = whole && new RegExp(`^%((?:25)*)${whole}$`);
  }
  encode(level) {
    if (this.whole && level === '') return '%' + this.whole;
    if (this.whole && this.wholeToken.test(level)) return '%25' + level.slice(1);
    let out = '', last = 0;
    for (const m of level.matchAll(this.token)) {
      out += this.escape(level.slice(last, m.index)) + '%25' + m[0].slice(1);
      last = m.index + m[0].length;
    }
    return out + this.escape(level.slice(last));
  }
  escape(text) {
    return Array.from(text, (c) => (this.inner.has(c) ? coded(c) : c)).join('');
  }
  decode(text) {
    const whole = this.whole && text.match(this.wholeToken);
    if (whole) return whole[1] === '' ? '' : '%' + text.slice(3);
    return text.replace(this.token, (all, apart, hex) => (apart === '' ? this.plain.get(hex) : '%' + all.slice(3)));
  }
}

const uri = new Alphabet(['.', '#', ...whiteSpace], '00');
const canonical = new Alphabet(['/', '+', '#'], null);

const levelURI = (level) => uri.encode(canonical.decode(level));

// toURI writes a canonical topic as WAMP does.
export function toURI(topic) {
  return topic === '%00' ? '%00' : topic.split('/').map(levelURI).join('.');
}

// fromURI is its inverse.
export function fromURI(text) {
  return text === '%00' ? '%00' : text.split('.').map((l) => canonical.encode(uri.decode(l))).join('/');
}

// toMatch turns a canonical filter into a WAMP subscription. WAMP knows
// wildcards or a prefix, not both: for both, the prefix asks for more than is
// wanted, and wanted(topic) tells which of it was meant.
export function toMatch(filter) {
  const levels = filter.split('/');
  const at = levels.indexOf('#');
  if (at >= 0 && at !== levels.length - 1) throw new Error('# stands only at the end');
  if (levels.some((l) => l.length > 1 && /[+#]/.test(l))) throw new Error('+ and # stand alone in their level');
  const wanted = (topic) => covers(levels, topic.split('/'));
  const plus = levels.indexOf('+');
  if (at < 0 && plus < 0) return { uri: toURI(filter), match: 'exact', wanted };
  if (at < 0) return { uri: levels.map((l) => (l === '+' ? '' : levelURI(l))).join('.'), match: 'wildcard', wanted };
  const firm = levels.slice(0, plus >= 0 ? plus : at);
  return { uri: firm.length === 0 ? '' : firm.map(levelURI).join('.'), match: 'prefix', wanted };
}

function covers(filter, topic) {
  if (topic[0].startsWith('$') && (filter[0] === '+' || filter[0] === '#')) return false;
  for (let i = 0; i < filter.length; i++) {
    if (filter[i] === '#') return true;
    if (i >= topic.length || (filter[i] !== '+' && filter[i] !== topic[i])) return false;
  }
  return filter.length === topic.length;
}
