// One WAMP session over a WebSocket, JSON, that comes back by itself.

const HELLO = 1, WELCOME = 2, ABORT = 3, GOODBYE = 6, ERROR = 8, PUBLISH = 16, PUBLISHED = 17,
  SUBSCRIBE = 32, SUBSCRIBED = 33, UNSUBSCRIBE = 34, UNSUBSCRIBED = 35, EVENT = 36, CALL = 48, RESULT = 50;

const loggedOut = ['wamp.error.no_auth_method', 'wamp.error.no_matching_auth_method', 'wamp.error.authentication_failed'];
const longestWait = 10000; // ms between two tries

export class Session {
  // onState is told 'wait', 'on', 'off' or 'out' with a sentence. user is who is
  // logged in at the page, 'out' that this is over.
  constructor(url, realm, user, onState) {
    Object.assign(this, { url, realm, user, onState, wait: 500, asked: new Map(), heard: new Map(), wanted: new Set() });
    this.connect();
  }

  connect() {
    this.onState('wait', 'connecting');
    this.open = false;
    this.last = 0;
    this.socket = new WebSocket(this.url, 'wamp.2.json');
    this.socket.onopen = () => this.send([HELLO, this.realm, { agent: 'Entrepot live page', authmethods: [this.user ? 'cookie' : 'anonymous'], roles: {
      publisher: {}, subscriber: { features: { pattern_based_subscription: true, publisher_identification: true, event_retention: true } }, caller: {} } }]);
    this.socket.onmessage = (m) => this.take(JSON.parse(m.data));
    this.socket.onclose = () => this.lost();
  }

  lost() {
    const why = this.reason || 'the connection is lost';
    this.open = false;
    this.reason = undefined;
    for (const { bad } of this.asked.values()) bad(new Error(why));
    this.asked.clear();
    this.heard.clear();
    this.onState('off', `${why}; next try in ${Math.round(this.wait / 100) / 10} s`);
    setTimeout(() => this.connect(), this.wait);
    this.wait = Math.min(2 * this.wait, longestWait);
  }

  take(m) {
    switch (m[0]) {
      case WELCOME: return this.welcome();
      case ABORT: return this.turnedAway(m[1].message || m[2], m[2]);
      case GOODBYE: this.reason = (m[1] && m[1].message) || 'the broker says goodbye'; return this.send([GOODBYE, {}, 'wamp.close.goodbye_and_out']);
      case EVENT: return this.heard.get(m[1])?.(m[3] || {}, m[4] || [], m[5] || {});
      case ERROR: return this.answer(m[2], null, Object.assign(new Error([m[4], ...(m[5] || [])].join(': ')), { uri: m[4] }));
      case PUBLISHED: case SUBSCRIBED: case UNSUBSCRIBED: case RESULT: return this.answer(m[1], m);
    }
  }

  turnedAway(reason, uri) {
    this.reason = reason;
    if (loggedOut.includes(uri)) this.onState('out', reason);
    this.socket.close();
  }

  welcome() {
    this.open = true;
    this.wait = 500;
    this.onState('on', 'connected by WAMP');
    for (const w of this.wanted) this.subscribe(w).catch(w.bad);
  }

  answer(id, message, error) {
    const a = this.asked.get(id);
    this.asked.delete(id);
    if (a) error ? a.bad(error) : a.good(message);
  }

  ask(...message) {
    if (!this.open) return Promise.reject(new Error('not connected'));
    const id = ++this.last;
    message.splice(1, 0, id);
    return new Promise((good, bad) => {
      this.asked.set(id, { good, bad });
      this.send(message);
    });
  }

  send(message) { this.socket.send(JSON.stringify(message)); }

  // watch subscribes now and after each loss of the connection, until stop.
  async watch(uri, match, heard, bad) {
    const w = { uri, match, heard, bad };
    this.wanted.add(w);
    if (this.open) await this.subscribe(w);
    return { stop: () => this.stop(w) };
  }

  async subscribe(w) {
    const [, , id] = await this.ask(SUBSCRIBE, { match: w.match, get_retained: true }, w.uri);
    w.id = id;
    this.heard.set(id, w.heard);
  }

  async stop(w) {
    this.wanted.delete(w);
    if (!this.open || !this.heard.delete(w.id)) return;
    await this.ask(UNSUBSCRIBE, w.id);
  }

  publish(uri, args, options) { return this.ask(PUBLISH, { acknowledge: true, exclude_me: false, ...options }, uri, args); }

  async call(uri, args) {
    const [, , , result = [], named = {}] = await this.ask(CALL, {}, uri, args);
    return { result, named };
  }
}
