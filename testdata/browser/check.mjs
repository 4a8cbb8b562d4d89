// What the checks in a browser share.

import { join } from 'node:path';
import { chromium } from 'playwright-core';

const { SCREENSHOTS, CHROMIUM = '/usr/bin/chromium' } = process.env;
export const patience = 20000; // ms for anything to happen

export const looks = [
  { name: 'desk', context: { viewport: { width: 1200, height: 900 }, colorScheme: 'light' } },
  { name: 'dark', context: { viewport: { width: 1200, height: 900 }, colorScheme: 'dark' } },
  { name: 'phone', context: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, colorScheme: 'light' } },
];

let failed = 0;

// check prints whether act came to its end.
export async function check(name, act) {
  try {
    await act();
    console.log(`ok ${name}`);
  } catch (err) {
    failed++;
    console.log(`not ok ${name}: ${String(err.stack || err).replaceAll('\n', ' | ')}`);
  }
}

export function equal(got, want) {
  if (got !== want) throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

// within fails what takes too long.
export function within(promise, what) {
  let timer;
  const late = new Promise((_, bad) => { timer = setTimeout(() => bad(new Error(`${what}: nothing for ${patience} ms`)), patience); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export const launch = () => chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });

// shoot takes a picture of a page, and fails where it scrolls sideways.
export async function shoot(page, name) {
  if (SCREENSHOTS) await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true });
  equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0);
}

export const end = () => process.exit(failed ? 1 : 0);
