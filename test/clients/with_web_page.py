"""doc/examples/search_page.py over some of the sample, as compose.yaml beside it runs the page: what it answers, and,
where there is a Chromium, how it looks there."""
import html.parser
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import client
import yaml
from client import ok, same
from PIL import Image

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
EXAMPLES = os.path.join(TOP, 'doc', 'examples')
ROWS = 3000
WORDS = 'an unpleasant smell'
VOID = {'meta', 'input', 'br', 'link', 'img', 'hr'}


class Reader(html.parser.HTMLParser):
    """A page as a reader without eyes gets it: elements, text by element, and what is wrong."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text, self.wrong = [], [], {}, []
        self.feed(text)
        self.wrong += [f'<{name}> stays open' for name in self.open]

    def handle_starttag(self, name, attributes):
        attributes = dict(attributes)
        self.elements.append((name, attributes))
        if name in ('input', 'select', 'textarea') and 'label' not in self.open:
            self.wrong.append(f'<{name}> without a label')
        if name in ('script', 'img', 'link', 'iframe') or re.search(r'https?:|//', ' '.join(v or '' for v in attributes.values())):
            self.wrong.append(f'<{name} {attributes}> is from elsewhere')
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        if not self.open or self.open.pop() != name:
            self.wrong.append(f'</{name}> closes another element')

    def handle_data(self, data):
        for name in set(self.open):
            self.text[name] = self.text.get(name, '') + data

    def count(self, name):
        return sum(1 for element, _ in self.elements if element == name)


def get(url):
    """(status, page, its text)"""
    try:
        with urllib.request.urlopen(url, timeout=300) as answer:
            code, text, headers = answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as answer:
        code, text, headers = answer.code, answer.read().decode(), answer.headers
    same("default-src 'none'" in headers.get('Content-Security-Policy', ''), True, f'policy of {url.split("/", 3)[3][:20]!r}')
    return code, Reader(text), text


def compose():
    """The command of the page in doc/examples/compose.yaml, which is what is run here: [word...].  The rest of that file
    names what there is: an image of the Containerfile, the sources, the page's port."""
    with open(os.path.join(EXAMPLES, 'compose.yaml'), encoding='utf-8') as file:
        services = yaml.safe_load(file)['services']
    same(sorted(services), ['db', 'page'], 'compose: services')
    build, page = services['db']['build'], services['page']
    top = os.path.normpath(os.path.join(EXAMPLES, build['context']))
    with open(os.path.join(top, build['dockerfile']), encoding='utf-8') as file:
        ok(re.search(fr'^FROM .* AS {build["target"]}$', file.read(), re.M), 'compose: the image is one of the Containerfile')
    (volume,), (port,) = page['volumes'], page['ports']
    folder, inside, how = volume.split(':')
    same((os.path.normpath(os.path.join(EXAMPLES, folder)), inside, how), (top, page['working_dir'], 'ro'), 'compose: the sources')
    same(page['environment']['PGPASSWORD'], services['db']['environment']['POSTGRES_PASSWORD'], 'compose: one password')
    same((page['environment']['PGHOST'], list(page['depends_on'])), ('db', ['db']), 'compose: the page finds the server')
    shell, option, script = shlex.split(page['command'])
    installs, _, command = script.partition(' && exec ')
    same((shell, option, installs.split()[:2]), ('sh', '-c', ['pip', 'install']), 'compose: the command')
    words = shlex.split(command)
    same((words[words.index('--host') + 1], port.split(':')), ('0.0.0.0', ['127.0.0.1', '8080', '8080']), 'compose: the port')
    words[words.index('--host') + 1] = '127.0.0.1'
    words[words.index('--sample') + 1] = str(ROWS)
    return [sys.executable, '-u'] + words[1:] + ['--port', '0']


def answers(url):
    code, page, _ = get(url)
    same((code, page.wrong, page.count('li'), page.count('main'), page.count('h1')), (200, [], 0, 1, 1), 'the empty page')
    ok(('html', {'lang': 'en'}) in page.elements, 'it says its language')
    code, page, _ = get(url + '?q=' + urllib.parse.quote(WORDS))
    same((code, page.wrong, page.count('li'), page.count('a')), (200, [], 10, 10), 'a search')
    ok('smell' in page.text.get('li', ''), 'entries with that meaning', page.text.get('li'))
    ok(f'10 entries nearest to “{WORDS}”' in page.text['main'], 'the status says what was found', page.text['main'][:300])
    ok(WORDS in page.text['title'], 'and so does the title')
    links = [attributes for name, attributes in page.elements if name == 'a']
    ok(all(a['aria-label'].startswith('more like this: ') for a in links), 'links have names of their own', links)
    code, page, _ = get(url.rstrip('/') + links[0]['href'])
    same((code, page.wrong, page.count('li')), (200, [], 10), 'more like the first')
    code, page, _ = get(url + '?most=40&q=' + urllib.parse.quote(WORDS))
    with client.psycopg.connect() as conn:
        right = conn.execute('SELECT count(*) FROM glosses WHERE length(text) <= 40').fetchone()[0]
    same((code, page.count('li')), (200, min(10, right)), 'very short entries')
    same(next(a['value'] for n, a in page.elements if n == 'option' and 'selected' in a), '40', 'the choice stays')
    code, page, text = get(url + '?q=' + urllib.parse.quote('<script>alert("smell")</script>'))
    same((code, page.wrong, '<script' in text), (200, [], False), 'what was typed is text')
    for query, code, words in (('?q=qqqqzzzz', 200, 'No entry has any of these words'), ('?like=99999999', 200, 'no such entry'),
                               ('?like=99999999999999999999&most=-1', 200, 'Type a few words'), ('other', 404, 'no such page'),
                               ('?q=%00%ff%27%22', 200, '')):
        found, page, text = get(url + query)
        ok(found == code and not page.wrong and words in text, f'{query}', (found, page.wrong, text[-300:]))


def chromium(url):
    """The page in a browser: it fits a wide and a narrow window, and is not blank.  A browser that does not
    run here says nothing of the page, so that is no failure."""
    program = shutil.which('chromium') or shutil.which('chromium-browser')
    if not program:
        return print('# no chromium here')
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for width, dark in ((1000, False), (360, True)):
            picture = f'{folder}/{width}.png'
            command = [program, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
                       f'--user-data-dir={folder}/{width}', f'--blink-settings=preferredColorScheme={0 if dark else 1}',
                       f'--window-size={width},800', f'--screenshot={picture}', url + '?q=' + urllib.parse.quote(WORDS)]
            try:
                subprocess.run(command, timeout=60, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
                image = Image.open(picture).convert('RGB')
            except (OSError, subprocess.SubprocessError) as error:
                print(f'# chromium does not run here: {error}')
                continue
            # (a browser may have a least width, and no dark mode)
            (wide, high), back = image.size, image.getpixel((2, 2))
            ok(back in ((255, 255, 255), (13, 17, 23)), f'{width} wide: background', back)
            # nothing is wider than the window: its outermost columns are empty
            edges = [image.crop((x, 0, x + 4, high)).getcolors(100) for x in (0, wide - 4)]
            same([len(colors or []) for colors in edges], [1, 1], f'{width} wide: it fits')
            inked = sum(n for n, color in image.getcolors(wide * high) if color != back)
            ok(wide * high * 0.01 < inked < wide * high * 0.5, f'{width} wide: there is something to see', inked)


def main():
    client.connect(autocommit=True).execute('CREATE DATABASE web')
    os.environ['PGDATABASE'] = 'web'
    log = tempfile.TemporaryFile('w+')
    server = subprocess.Popen(compose(), cwd=TOP, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        url = server.stdout.readline().strip()
        ok(re.fullmatch(r'http://127\.0\.0\.1:\d+/', url), 'it says where it is', url)
        answers(url)
        log.seek(0)
        ok('Traceback' not in log.read(), 'no error in its log')
        log.seek(0, os.SEEK_END)
        chromium(url)
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


client.run(main)
