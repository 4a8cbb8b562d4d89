// Plot draws how many messages came in each of the last 60 seconds.

const seconds = 60;

export class Plot {
  constructor(canvas, now, all) {
    Object.assign(this, { canvas, now, all, total: 0, current: 0, past: new Array(seconds).fill(0) });
    setInterval(() => this.tick(), 1000);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
    addEventListener('resize', () => this.draw());
    this.draw();
  }

  count() { this.current++; this.total++; }

  tick() {
    this.past.push(this.current);
    this.past.shift();
    this.now.textContent = this.current.toLocaleString();
    this.all.textContent = this.total.toLocaleString();
    this.current = 0;
    this.draw();
  }

  draw() {
    const { canvas } = this, scale = devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const c = canvas.getContext('2d'), style = getComputedStyle(document.documentElement);
    c.scale(scale, scale);
    const top = Math.max(...this.past, 1);
    const x = (i) => (i * width) / (seconds - 1), y = (n) => height - 2 - (n * (height - 22)) / top;
    c.beginPath();
    this.past.forEach((n, i) => c.lineTo(x(i), y(n)));
    c.strokeStyle = style.getPropertyValue('--main');
    c.lineWidth = 2;
    c.stroke();
    c.lineTo(width, height);
    c.lineTo(0, height);
    c.fillStyle = style.getPropertyValue('--plot');
    c.fill();
    c.fillStyle = style.getPropertyValue('--soft');
    c.font = '12px system-ui';
    c.fillText(`${top.toLocaleString()}/s`, 4, 13);
  }
}
