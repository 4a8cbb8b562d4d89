// The live page of a broker with users, as a person meets it: wrong and right
// log-ins, what that user may and may not do, words of others that would be
// markup, and the way out.
//
//   HTTP=127.0.0.1:8080 MQTT=127.0.0.1:1883 NAME=ann PASSWORD=… node users.mjs
//
// The user may not publish to cmd/#. Prints and pictures as run.mjs.

import mqtt from 'mqtt';
import { check, end, equal, launch, looks, patience, shoot } from './check.mjs';

const { HTTP, MQTT, NAME, PASSWORD } = process.env;
const evil = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>';

async function logIn(page, name, password) {
  await page.fill('#login-user', name);
  await page.fill('#login-password', password);
  await page.click('#login button');
}

const text = (page, selector, want) => page.locator(selector, { hasText: want }).first().waitFor({ timeout: patience });

// visit goes from the log-in to the log-out.
async function visit(browser, look) {
  const context = await browser.newContext(look.context);
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (err) => faults.push(err.message));
  page.on('console', (m) => { if (m.type() === 'error' && !m.text().includes('403')) faults.push(m.text()); });
  await page.goto(`http://${HTTP}/`);
  await page.locator('#login').waitFor({ timeout: patience });
  equal(await page.locator('#messages').count(), 0);
  await logIn(page, evil, 'wrong');
  await text(page, '#login-answer', 'the name or the password is wrong');
  await logIn(page, NAME, 'wrong');
  await text(page, '#login-answer', 'the name or the password is wrong');
  await shoot(page, `login-${look.name}`);
  await logIn(page, NAME, PASSWORD);
  await page.locator('#status[data-state=on]').waitFor({ timeout: patience });
  await text(page, '#user', NAME);
  equal(await page.evaluate(() => document.cookie), ''); // scripts do not get it

  const device = await mqtt.connectAsync(`mqtt://${MQTT}`, { protocolVersion: 5, clientId: evil, username: NAME, password: PASSWORD, reconnectPeriod: 0 });
  await text(page, '#subscribe-answer', 'watching #');
  await device.publishAsync(`plant/${evil.replaceAll('/', '')}`, evil, { qos: 1 });
  await text(page, '#messages .body', evil);
  await device.publishAsync('plant/9', evil, { qos: 1, properties: { contentType: evil } });
  await text(page, '#messages .from', evil);
  await page.fill('#topic', `cmd/${look.name}`);
  await page.click('#publish button:not([type])');
  await text(page, '#publish-answer', `${NAME} may not publish to cmd/${look.name}`);
  await shoot(page, `user-${look.name}`);
  await page.fill('#topic', 'plant/8');
  await page.fill('#payload', 'as a user');
  await page.click('#publish button:not([type])');
  await text(page, '#publish-answer', 'plant/8: every matching queue has it');
  await text(page, '#messages .body', 'as a user');
  await page.fill('#procedure', `${evil}`);
  await page.click('#call button');
  await text(page, '#call-answer.bad', 'wamp.error');
  equal(await page.evaluate(() => window.hit), undefined);

  // A second page of the same browser is logged in; the log-out is for both.
  const other = await context.newPage();
  await other.goto(`http://${HTTP}/`);
  await other.locator('#status[data-state=on]').waitFor({ timeout: patience });
  await page.click('#logout button');
  await page.locator('#login').waitFor({ timeout: patience });
  await other.locator('#login').waitFor({ timeout: patience });
  await page.goBack().catch(() => {});
  await page.goto(`http://${HTTP}/`);
  await page.locator('#login').waitFor({ timeout: patience });
  equal(faults.join('; '), '');
  await device.endAsync();
  await context.close();
}

// A page of another port of this machine sends the cookie's site, and gets in
// nowhere: not by WebSocket, not by a form.
async function otherPort(browser) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`http://${HTTP}/`);
  await logIn(page, NAME, PASSWORD);
  await page.locator('#status[data-state=on]').waitFor({ timeout: patience });
  await context.route('http://127.0.0.1:1/', (r) => r.fulfill({ contentType: 'text/html', body: '<p>another page' }));
  const evilPage = await context.newPage();
  await evilPage.goto('http://127.0.0.1:1/');
  const got = await evilPage.evaluate(async (http) => {
    const answers = [];
    for (const [path, options] of [['/metrics', {}], ['/api/v1/queues', {}], ['/logout', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' }],
      ['/api/v1/queues/purge', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"queue":"q"}' }]]) {
      answers.push(await fetch(`http://${http}${path}`, { credentials: 'include', ...options }).then((a) => `${path} ${a.status}`, () => 'refused'));
    }
    return answers.join();
  }, HTTP);
  equal(got, 'refused,refused,refused,refused');
  const framed = await evilPage.evaluate((http) => new Promise((done) => {
    const f = document.createElement('iframe');
    f.onload = () => { try { done(f.contentDocument === null ? 'blocked' : 'open'); } catch { done('blocked'); } };
    f.src = `http://${http}/`;
    document.body.append(f);
  }), HTTP);
  equal(framed, 'blocked');
  await page.reload();
  await page.locator('#status[data-state=on]').waitFor({ timeout: patience }); // still in
  await context.close();
}

const browser = await launch();
for (const look of looks) await check(`log-in and log-out, ${look.name}`, () => visit(browser, look));
await check('a page of another port', () => otherPort(browser));
await browser.close();
end();
