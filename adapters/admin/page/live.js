import { Session } from './wamp.js';
import { toURI, fromURI, toMatch } from './names.js';
import { Plot } from './plot.js';
import { user } from './logout.js';

const most = 200;      // messages on the page
const longest = 4096;  // characters of a payload
const soon = 3000;     // ms after which a page is not loaded anew for nothing

const $ = (id) => document.getElementById(id);
const plot = new Plot($('rate'), $('rate-now'), $('rate-all'));
const waiting = [];    // came since the last frame
let paused = false;
let watching;

const realm = document.documentElement.dataset.realm;
const session = new Session(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws`, realm, user, (state, text) => {
  if (state === 'out' && performance.now() > soon) return location.reload(); // to the log-in
  $('status').dataset.state = state;
  $('status-text').textContent = text;
});

// readable says in a person's words what the broker refused.
function readable(err, what) {
  return err.uri === 'wamp.error.not_authorized' ? `${user || 'nobody in particular'} may not ${what}` : err.message;
}

function say(where, kind, text) {
  where.className = `answer ${kind}`;
  where.textContent = text;
}

// on runs act when the form is sent and shows where it fails; what says what it is.
function on(form, answer, what, act) {
  $(form).addEventListener('submit', async (e) => {
    e.preventDefault();
    const button = $(form).querySelector('button:not([type])');
    button.disabled = true;
    try {
      await act();
    } catch (err) {
      say($(answer), 'bad', readable(err, what()));
    }
    button.disabled = false;
  });
}

async function watch() {
  const filter = $('filter').value;
  const { uri, match, wanted } = toMatch(filter);
  if (watching) await watching.stop();
  watching = undefined;
  const failed = (err) => say($('subscribe-answer'), 'bad', readable(err, `watch ${filter}`));
  watching = await session.watch(uri, match, (details, args, named) => {
    const topic = fromURI(details.topic || uri);
    if (wanted(topic)) heard(topic, details, args, named);
  }, failed);
  say($('subscribe-answer'), 'good', `watching ${filter}`);
}

function heard(topic, details, args, named) {
  plot.count();
  if (paused) return;
  waiting.push({ topic, details, args, named, at: new Date() });
  if (waiting.length > most) waiting.shift();
  if (waiting.length === 1) requestAnimationFrame(show);
}

function show() {
  $('messages').prepend(...waiting.splice(0).reverse().map(row));
  while ($('messages').children.length > most) $('messages').lastChild.remove();
}

function row({ topic, details, args, named, at }) {
  const li = document.createElement('li');
  const head = add(li, 'div', 'head');
  add(head, 'span', 'topic', topic);
  add(head, 'span', 'from', from(details));
  add(head, 'time', 'time', at.toLocaleTimeString([], { hourCycle: 'h23' })).dateTime = at.toISOString();
  add(li, 'div', 'body', payload(args, named));
  return li;
}

function add(parent, name, kind, text) {
  const e = document.createElement(name);
  e.className = kind;
  if (text !== undefined) e.textContent = text;
  return parent.appendChild(e);
}

// from says which protocol and client a message came by.
function from(details) {
  const [protocol, ...client] = String(details.x_origin || '').split(' ');
  const parts = [protocol && (client.join(' ') ? `${protocol}, ${client.join(' ')}` : protocol)];
  if (details.retained) parts.push('last value');
  if (details.x_content_type) parts.push(details.x_content_type);
  return parts.filter(Boolean).join(' · ');
}

function payload(args, named) {
  const lone = args.length === 1 && Object.keys(named).length === 0;
  const text = lone ? value(args[0]) : JSON.stringify({ args, kwargs: named });
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

// value writes an argument; binary ones begin with NUL in WAMP's JSON.
function value(v) {
  if (typeof v !== 'string') return JSON.stringify(v);
  if (!v.startsWith('\0')) return v;
  const bytes = Uint8Array.from(atob(v.slice(1)), (c) => c.charCodeAt(0));
  const shown = Array.from(bytes.subarray(0, 64), (b) => b.toString(16).padStart(2, '0')).join(' ');
  return `${bytes.length} bytes: ${shown}${bytes.length > 64 ? ' …' : ''}`;
}

const wish = () => `watch ${$('filter').value}`;
on('subscribe', 'subscribe-answer', wish, watch);

on('publish', 'publish-answer', () => `publish to ${$('topic').value}`, async () => {
  const topic = $('topic').value;
  await session.publish(toURI(topic), [$('payload').value], { retain: $('retain').checked });
  say($('publish-answer'), 'good', `${topic}: every matching queue has it`);
});

on('call', 'call-answer', () => `call ${$('procedure').value}`, async () => {
  const args = JSON.parse($('arguments').value || '[]');
  if (!Array.isArray(args)) throw new Error('the arguments are a JSON array, like [1, "two"]');
  say($('call-answer'), '', 'called …');
  const { result, named } = await session.call(toURI($('procedure').value), args);
  const all = Object.keys(named).length > 0 ? { args: result, kwargs: named } : result.length === 1 ? result[0] : result;
  say($('call-answer'), 'good', JSON.stringify(all, null, 2));
});

$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', paused);
  $('pause').textContent = paused ? 'Go on' : 'Pause';
});

$('clear').addEventListener('click', () => $('messages').replaceChildren());

watch().catch((err) => say($('subscribe-answer'), 'bad', readable(err, wish())));
