// Who is logged in, and the way out; nothing of it shows where nobody has to.

export const user = document.documentElement.dataset.user;

if (user) {
  const form = document.getElementById('logout');
  document.getElementById('user').textContent = user;
  form.hidden = false;
  form.querySelector('button').addEventListener('click', async () => {
    try {
      await fetch('/logout', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' });
    } finally {
      location.reload();
    }
  });
}
