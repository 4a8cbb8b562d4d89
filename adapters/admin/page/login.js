const $ = (id) => document.getElementById(id);

// say shows what went wrong; nothing of it is markup.
function say(text) {
  $('login-answer').className = 'answer bad';
  $('login-answer').textContent = text;
}

$('login').addEventListener('submit', async (e) => {
  e.preventDefault();
  const button = $('login').querySelector('button');
  button.disabled = true;
  say('');
  try {
    const answer = await fetch('/login', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ user: $('login-user').value, password: $('login-password').value }),
    });
    if (answer.ok) return location.reload();
    say((await answer.json()).error);
    $('login-password').value = '';
    $('login-password').focus();
  } catch (err) {
    say(`the broker does not answer: ${err.message}`);
  }
  button.disabled = false;
});
