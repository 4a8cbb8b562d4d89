// Web clients of others, in a headless Chromium, against a running broker:
// each talks with an MQTT device and a STOMP worker, and again after a reload.
// Then the live page is used as a person would.
//
//   HTTP=127.0.0.1:8080 MQTT=127.0.0.1:1883 STOMP=127.0.0.1:61613 node run.mjs
//
// Prints a line for each check, ok or not ok. SCREENSHOTS names a folder for
// what the live page looks like.

import { createServer } from 'node:http';
import { connect as dial } from 'node:net';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import mqtt from 'mqtt';
import { check, end, equal, launch, looks, patience, shoot, within } from './check.mjs';

const { HTTP, MQTT, STOMP } = process.env;
const modules = dirname(dirname(createRequire(import.meta.url).resolve('mqtt/package.json')));

// Device is an MQTT client over TCP that remembers what came.
class Device {
  static async open() {
    const d = new Device();
    d.client = await mqtt.connectAsync(`mqtt://${MQTT}`, { protocolVersion: 5, clientId: `device-${process.pid}`, reconnectPeriod: 0 });
    d.came = [];
    d.waiting = [];
    d.client.on('message', (topic, payload) => {
      d.came.push(`${topic} ${payload}`);
      d.waiting.splice(0).forEach((look) => look());
    });
    return d;
  }
  async subscribe(filter) { await this.client.subscribeAsync(filter, { qos: 1 }); }
  async publish(topic, payload) { await this.client.publishAsync(topic, payload, { qos: 1 }); }
  async got(message) {
    while (!this.came.includes(message)) await within(new Promise((look) => this.waiting.push(look)), `the device waits for ${message}`);
  }
  async close() { await this.client.endAsync(); }
}

// Worker takes jobs from a queue by STOMP, acknowledges each, and tells of it
// on a topic.
class Worker {
  static async open(queue) {
    const w = new Worker();
    const [host, port] = [STOMP.slice(0, STOMP.lastIndexOf(':')), STOMP.slice(STOMP.lastIndexOf(':') + 1)];
    w.socket = dial(Number(port), host);
    w.read = '';
    w.ready = new Promise((ready, bad) => { w.isReady = ready; w.socket.on('error', bad); });
    w.socket.setEncoding('utf8');
    w.socket.on('data', (text) => w.take(text));
    w.send('CONNECT\naccept-version:1.2\nhost:/\n\n\0');
    w.send(`SUBSCRIBE\nid:1\nack:client-individual\ndestination:/queue/${queue}\nreceipt:subscribed\n\n\0`);
    await within(w.ready, 'the worker connects');
    return w;
  }
  send(frame) { this.socket.write(frame); }
  take(text) {
    this.read += text;
    for (let end = this.read.indexOf('\0'); end >= 0; end = this.read.indexOf('\0')) {
      this.frame(this.read.slice(0, end).replace(/^\n+/, ''));
      this.read = this.read.slice(end + 1);
    }
  }
  frame(text) {
    const cut = text.indexOf('\n\n');
    const [command, ...headers] = text.slice(0, cut).split('\n');
    if (command === 'RECEIPT') this.isReady();
    if (command !== 'MESSAGE') return;
    const ack = headers.find((h) => h.startsWith('ack:')).slice(4);
    this.send(`ACK\nid:${ack}\n\n\0`);
    this.send(`SEND\ndestination:/topic/done\n\ndone ${text.slice(cut + 2)}\0`);
  }
  close() { this.socket.destroy(); }
}

// Each client runs in the page as {open, publish, job, close}; open gives what
// comes on news/+ to heard(topic, text).
const clients = {
  'autobahn-js': {
    script: join(modules, 'autobahn-browser/autobahn.js'),
    open: (http, heard) => new Promise((good, bad) => {
      const c = new autobahn.Connection({ url: `ws://${http}/ws`, realm: 'realm1', max_retries: 0 });
      c.onopen = async (s) => {
        await s.subscribe('news.', (args, named, details) => heard(details.topic.replaceAll('.', '/'), String(args[0])), { match: 'prefix' });
        good({
          publish: (topic, text) => s.publish(topic.replaceAll('/', '.'), [text], {}, { acknowledge: true }),
          job: (text) => s.publish('$queue.browser-jobs', [text], {}, { acknowledge: true }),
        });
      };
      c.onclose = (reason, details) => bad(new Error(`${reason} ${JSON.stringify(details)}`));
      c.open();
    }),
  },
  wampy: {
    script: join(modules, 'wampy/dist/browser/wampy.js'),
    open: async (http, heard) => {
      const c = new Wampy(`ws://${http}/ws`, { realm: 'realm1', autoReconnect: false, uriValidation: 'loose' });
      await c.connect();
      await c.subscribe('news', (e) => heard(e.details.topic.replaceAll('.', '/'), String(e.argsList[0])), { match: 'prefix' });
      return {
        publish: (topic, text) => c.publish(topic.replaceAll('/', '.'), [text]),
        job: (text) => c.publish('$queue.browser-jobs', [text]),
      };
    },
  },
  'mqtt.js': {
    script: join(modules, 'mqtt/dist/mqtt.js'),
    open: async (http, heard) => {
      const c = await mqtt.connectAsync(`ws://${http}/ws`, { protocolVersion: 5, reconnectPeriod: 0 });
      c.on('message', (topic, payload) => heard(topic, payload.toString()));
      await c.subscribeAsync('news/+', { qos: 1 });
      return {
        publish: (topic, text) => c.publishAsync(topic, text, { qos: 1 }),
        job: (text) => c.publishAsync('$queue/browser-jobs', text, { qos: 1 }),
      };
    },
  },
  stompjs: {
    script: join(modules, '@stomp/stompjs/bundles/stomp.umd.js'),
    open: (http, heard) => new Promise((good, bad) => {
      const c = new StompJs.Client({ brokerURL: `ws://${http}/ws`, reconnectDelay: 0 });
      c.onStompError = (f) => bad(new Error(f.headers.message));
      c.onWebSocketError = () => bad(new Error('no WebSocket'));
      c.onConnect = () => {
        c.watchForReceipt('subscribed', () => good({
          publish: (topic, text) => c.publish({ destination: `/topic/${topic.replaceAll('/', '.')}`, body: text }),
          job: (text) => c.publish({ destination: '/queue/browser-jobs', body: text }),
        }));
        c.subscribe('/topic/news.*', (m) => heard(m.headers.destination.slice('/topic/'.length).replaceAll('.', '/'), m.body), { receipt: 'subscribed' });
      };
      c.activate();
    }),
  },
};

// exchange is a visit of the page: it hears the device, the device hears it,
// and a job of it is done.
async function exchange(page, name, client, device, visit) {
  await page.addScriptTag({ path: client.script });
  await within(page.evaluate(`(async () => {
    window.came = [];
    window.client = await (${client.open})(${JSON.stringify(HTTP)}, (topic, text) => window.came.push(topic + ' ' + text));
  })()`), `${name} connects`);
  const word = `${name}-${visit}`;
  await device.publish('news/local', `for ${word}`);
  await page.waitForFunction((m) => window.came.includes(m), `news/local for ${word}`, { timeout: patience });
  await page.evaluate((w) => window.client.publish('from/browser', w), word);
  await device.got(`from/browser ${word}`);
  await page.evaluate((w) => window.client.job(w), word);
  await device.got(`done done ${word}`);
}

// elsewhere is a page of another origin, which may not connect.
async function elsewhere(browser) {
  const server = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end('<p>another page')).listen(0, '127.0.0.1');
  await new Promise((ready) => server.once('listening', ready));
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  for (const protocol of ['wamp.2.json', 'mqtt', 'v12.stomp']) {
    const end = await within(page.evaluate(([http, p]) => new Promise((end) => {
      const s = new WebSocket(`ws://${http}/ws`, p);
      s.onopen = () => end('open');
      s.onerror = () => end('refused');
    }), [HTTP, protocol]), protocol);
    equal(end, 'refused');
  }
  await page.close();
  server.close();
}

// livePage watches, publishes and calls as a person would.
async function livePage(browser, device, look) {
  const context = await browser.newContext(look.context);
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (err) => faults.push(err.message));
  page.on('console', (m) => { if (m.type() === 'error') faults.push(m.text()); });
  await page.goto(`http://${HTTP}/`);
  await page.locator('#status[data-state=on]').waitFor({ timeout: patience });
  await page.fill('#filter', 'plant/+/temp');
  await page.click('#subscribe button');
  await page.getByText('watching plant/+/temp').waitFor({ timeout: patience });
  for (let i = 0; i < 20; i++) await device.publish('plant/7/temp', `{"celsius": ${20 + i / 10}, "look": "${look.name}"}`);
  await page.locator('#messages .topic', { hasText: 'plant/7/temp' }).first().waitFor({ timeout: patience });
  await page.locator('#messages .from', { hasText: 'mqtt' }).first().waitFor({ timeout: patience });
  await page.fill('#topic', 'from/browser');
  await page.fill('#payload', `page ${look.name}`);
  await page.click('#publish button:not([type])');
  await device.got(`from/browser page ${look.name}`);
  await page.click('#call button');
  await page.waitForFunction(() => /^\d+$/.test(document.getElementById('call-answer').textContent), null, { timeout: patience });
  await page.waitForFunction(() => document.getElementById('rate-all').textContent === '20', null, { timeout: patience });
  await shoot(page, look.name);
  equal(faults.join('; '), '');
  await page.reload();
  await page.locator('#status[data-state=on]').waitFor({ timeout: patience });
  await context.close();
}

const browser = await launch();
const device = await Device.open();
const worker = await Worker.open('browser-jobs');
await device.subscribe('from/browser');
await device.subscribe('done');
for (const [name, client] of Object.entries(clients)) {
  await check(`${name}, with a device and a worker, and again after a reload`, async () => {
    const context = await browser.newContext({ bypassCSP: true });
    const page = await context.newPage();
    await page.goto(`http://${HTTP}/healthz`);
    await exchange(page, name, client, device, 'first');
    await page.reload();
    await exchange(page, name, client, device, 'second');
    await context.close();
  });
}
await check('a page of another origin is refused', () => elsewhere(browser));
for (const look of looks) await check(`live page, ${look.name}`, () => livePage(browser, device, look));
worker.close();
await device.close();
await browser.close();
end();
