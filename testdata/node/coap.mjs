// node-coap as a device, a dashboard and a worker, against a running broker and
// beside an MQTT device.
//
//   COAP=127.0.0.1:5683 MQTT=127.0.0.1:1883 node coap.mjs
//
// Prints a line for each check, ok or not ok.

import { randomBytes } from 'node:crypto';
import { createSocket } from 'node:dgram';
import coap from 'coap';
import mqtt from 'mqtt';

const { COAP, MQTT } = process.env;
const [hostname, port] = [COAP.slice(0, COAP.lastIndexOf(':')), Number(COAP.slice(COAP.lastIndexOf(':') + 1))];
const patience = 20000; // ms for anything to happen
// An agent closes a socket of its own whenever nothing is open, and that may hit
// the next request.
const agent = new coap.Agent({ socket: createSocket('udp4') });
const text = 'text/plain', octets = 'application/octet-stream';

let failed = 0;
async function check(name, act) {
  try {
    await act();
    console.log(`ok ${name}`);
  } catch (err) {
    failed++;
    console.log(`not ok ${name}: ${String(err.stack || err).replaceAll('\n', ' | ')}`);
  }
}

function equal(got, want) {
  if (got !== want) throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

// within fails what takes too long.
function within(promise, what) {
  let timer;
  const late = new Promise((_, bad) => { timer = setTimeout(() => bad(new Error(`${what}: nothing for ${patience} ms`)), patience); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// ask sends a request and returns its answer. A body over a block's size goes
// in blocks of 1024 bytes.
function ask(method, path, { payload, format, confirmable = true, observe = false } = {}) {
  const [pathname, query] = path.split('?');
  return within(new Promise((good, bad) => {
    const request = coap.request({ hostname, port, method, pathname, query, confirmable, observe, agent });
    if (format) request.setOption('Content-Format', format);
    if (payload?.length > 1024) request.setOption('Block1', Buffer.of(6));
    request.on('response', good);
    request.on('error', bad);
    request.end(payload);
  }), `${method} ${path}`);
}

const option = (answer, name) => answer.options.filter((o) => o.name === name).map((o) => String(o.value));
const location = (answer) => '/' + option(answer, 'Location-Path').join('/');

// Observer keeps what an observation brings until it is asked for.
class Observer {
  static async open(path) {
    const o = new Observer();
    o.waiting = [];
    o.stream = await ask('GET', path, { observe: true });
    o.stream.on('data', (chunk) => {
      o.values.push(String(chunk));
      o.waiting.splice(0).forEach((look) => look());
    });
    return o;
  }
  values = [];
  async next() {
    while (this.values.length === 0) await within(new Promise((look) => this.waiting.push(look)), 'an observer waits');
    return this.values.shift();
  }
  close() { this.stream.close(); }
}

// device is an MQTT client that keeps what it gets.
async function device() {
  const client = await mqtt.connectAsync(`mqtt://${MQTT}`, { protocolVersion: 5, clientId: `device-${process.pid}`, reconnectPeriod: 0 });
  const came = [], waiting = [];
  client.on('message', (topic, payload, packet) => {
    came.push({ topic, payload, type: packet.properties?.contentType });
    waiting.splice(0).forEach((look) => look());
  });
  const next = async () => {
    while (came.length === 0) await within(new Promise((look) => waiting.push(look)), 'the device waits');
    return came.shift();
  };
  return { client, next };
}

const m = await device();

await check('publish and read', async () => {
  equal((await ask('PUT', '/t/node/temp', { payload: '21.5', format: text })).code, '2.01');
  equal((await ask('PUT', '/t/node/temp', { payload: '21.6', format: text })).code, '2.04');
  const got = await ask('GET', '/t/node/temp');
  equal(got.code, '2.05');
  equal(String(got.payload), '21.6');
  equal(option(got, 'Content-Format')[0], text);
  equal((await ask('POST', '/t/node/temp', { payload: 'x', confirmable: false })).code, '2.04');
  equal(String((await ask('GET', '/t/node/temp')).payload), '21.6');
  equal((await ask('DELETE', '/t/node/temp')).code, '2.02');
  equal((await ask('GET', '/t/node/temp')).code, '4.04');
});

await check('an MQTT client hears a CoAP device', async () => {
  await m.client.subscribeAsync('node/out/+', { qos: 1 });
  equal((await ask('POST', '/t/node/out/temp', { payload: Buffer.of(0, 255, 1), format: octets })).code, '2.04');
  const got = await m.next();
  equal(got.topic, 'node/out/temp');
  equal(got.payload.toString('hex'), '00ff01');
  equal(got.type, octets);
});

await check("observe an MQTT device's topic", async () => {
  await m.client.publishAsync('node/in/temp', '1', { qos: 1, retain: true });
  const o = await Observer.open('/t/node/in/temp');
  equal(await o.next(), '1');
  for (const value of ['2', '3', '4', '5']) {
    await m.client.publishAsync('node/in/temp', value, { qos: 1, retain: true });
    equal(await o.next(), value);
  }
  o.close();
});

await check('blocks of 200 KB both ways', async () => {
  const body = randomBytes(200_000);
  equal((await ask('PUT', '/t/node/large', { payload: body, format: octets })).code, '2.01');
  equal((await ask('GET', '/t/node/large')).payload.equals(body), true);
  await m.client.subscribeAsync('node/large', { qos: 1 });
  equal((await m.next()).payload.equals(body), true);
  body.reverse();
  await m.client.publishAsync('node/large', body, { qos: 1, retain: true });
  equal((await m.next()).payload.equals(body), true);
  equal((await ask('GET', '/t/node/large')).payload.equals(body), true);
});

await check("a worker's day", async () => {
  for (let n = 0; n < 4; n++) {
    await m.client.publishAsync('$queue/node-orders', `order ${n}`, { qos: 1 });
  }
  equal((await ask('POST', '/q/node-orders', { payload: 'order 4', format: text })).code, '2.04');
  equal(JSON.parse((await ask('GET', '/q/node-orders')).payload).messages, 5);
  for (let n = 0; n < 5; n++) {
    let got = await ask('POST', '/q/node-orders/take?lease=30000');
    equal(got.code, '2.01');
    equal(String(got.payload), `order ${n}`);
    if (n === 1) { // longer than thought
      equal((await ask('PUT', location(got) + '?lease=60000')).code, '2.04');
    }
    if (n === 2) { // given back, and taken again
      equal((await ask('DELETE', location(got) + '?requeue=1')).code, '2.02');
      got = await ask('POST', '/q/node-orders/take');
      equal(String(got.payload), 'order 2');
    }
    equal((await ask('DELETE', location(got))).code, '2.02');
    equal((await ask('DELETE', location(got))).code, '4.04');
  }
  equal((await ask('POST', '/q/node-orders/take')).code, '4.04');
});

await check('a call that nobody serves, and one that an MQTT client does', async () => {
  equal((await ask('POST', '/rpc/node/none', { payload: 'x' })).code, '4.04');
  m.client.on('message', (topic, payload, packet) => {
    if (topic === '$rpc/node/twice') m.client.publish(packet.properties.responseTopic, String(2 * Number(payload)), { qos: 1 });
  });
  await m.client.subscribeAsync('$rpc/node/twice', { qos: 1 });
  const got = await ask('POST', '/rpc/node/twice', { payload: '21', format: text });
  equal(got.code, '2.04');
  equal(String(got.payload), '42');
});

await check('discovery', async () => {
  const got = await ask('GET', '/.well-known/core?rt=core.ps.coll');
  equal(got.code, '2.05');
  equal(String(got.payload), '</ps>;rt="core.ps core.ps.coll";ct=40');
});

await m.client.endAsync();
process.exit(failed > 0 ? 1 : 0);
