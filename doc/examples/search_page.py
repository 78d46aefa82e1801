#!/usr/bin/env python3
"""A web page that searches the sample of "make demo KEEP=1": Python's own HTTP server and psycopg.

  pip install "psycopg[binary]"
  PGHOST=... PGUSER=postgres python3 search_page.py [--host 127.0.0.1] [--port 8080] [--sample ROWS]

--sample makes the table of the demo first, with that many rows, unless there is one; compose.yaml does so.
One file, no JavaScript, nothing from elsewhere.  Words are searched for by meaning: where your application would
ask its model for their embedding, embed() takes the mean of three entries with these words, as no model
comes with the sample.  Every result leads to the entries nearest to it.
"""
import argparse
import html
import http.server
import os
import subprocess
import sys
import time
import urllib.parse

import psycopg

RESULTS = 10
SAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "test", "data", "sample.py")

STYLE = """
:root { color-scheme: light dark; --text: #1f2328; --quiet: #59636e; --back: #fff; --line: #d1d9e0; --accent: #0b6e4f; --on: #fff }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --quiet: #9198a1; --back: #0d1117; --line: #3d444d; --accent: #4cc38a; --on: #0d1117 } }
* { box-sizing: border-box }
body { font: 1rem/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 44rem; margin: 0 auto; padding: 1.5rem 1rem }
h1 { font-size: 1.5rem; margin: 0 0 1rem }
form { display: flex; flex-wrap: wrap; gap: .5rem; align-items: end }
label { flex: 1 1 16rem }
input, select, button { font: inherit; width: 100%; height: 2.75rem; padding: 0 .75rem; border: 1px solid var(--quiet); border-radius: .375rem;
  color: var(--text); background: var(--back) }
label { display: block } label.short { flex: 0 0 11rem }
button { width: auto; color: var(--on); background: var(--accent); border-color: var(--accent); cursor: pointer }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
.status { color: var(--quiet); margin: 1.25rem 0 .25rem }
ol { list-style: none; margin: 0; padding: 0 }
li { padding: .75rem 0; border-top: 1px solid var(--line); overflow-wrap: anywhere }
li p { margin: 0 }
.word { font-weight: 600 }
.more { font-size: .875rem; color: var(--quiet) }
a { color: var(--accent) }
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>Dictionary by meaning</h1></header>
<main>
<form role="search" method="get" action="/">
<label>Words <input type="search" name="q" value="{words}" maxlength="200" autocomplete="off"></label>
<label class="short">Entries <select name="most">{choices}</select></label>
<button type="submit">Search</button>
</form>
<p class="status" role="status">{status}</p>
{results}
</main>
</body>
</html>
"""

# longest entries that are wanted, in characters; 0 is no limit
LENGTHS = {"0": "of any length", "80": "short", "40": "very short"}


class Trouble(Exception):
    """Something to tell the reader."""


def embed(conn, words):
    """The embedding of words: here the mean of the three entries with most of them; yours comes from your model."""
    found = conn.execute(
        """SELECT avg(embedding)::text FROM (
               SELECT embedding FROM glosses, websearch_to_tsquery('english', %s) query
               WHERE to_tsvector('english', text) @@ query
               ORDER BY ts_rank(to_tsvector('english', text), query, 1) DESC, id LIMIT 3) best""",
        (" or ".join(words.split()),)).fetchone()[0]
    if found is None:
        raise Trouble("No entry has any of these words. Try others.")
    return found


def nearest(conn, vector, most, without=0):
    """The entries nearest to a vector: (id, text, similarity)."""
    return conn.execute(
        """SELECT id, text, 1 - (embedding <=> %(vector)s::vector) FROM glosses
           WHERE (%(most)s = 0 OR length(text) <= %(most)s) AND id <> %(without)s
           ORDER BY embedding <=> %(vector)s::vector LIMIT %(limit)s""",
        {"vector": vector, "most": most, "without": without, "limit": RESULTS}).fetchall()


def search(words, like, most):
    """What to show: (status, rows)."""
    with psycopg.connect() as conn:
        if like:
            row = conn.execute("SELECT text, embedding::text FROM glosses WHERE id = %s", (like,)).fetchone()
            if row is None:
                raise Trouble("There is no such entry.")
            about, vector = row
        elif words:
            about, vector = words, embed(conn, words)
        else:
            return "Type a few words. Entries that mean nearly the same are found, whether or not they have these words.", []
        start = time.perf_counter()
        rows = nearest(conn, vector, most, like)
        taken = (time.perf_counter() - start) * 1000
    if not rows:
        return "No entry is so short.", []
    return f"{len(rows)} entries nearest to “{about}”, in {taken:.1f} ms", rows


def shown(rows, most):
    """The list of results."""
    if not rows:
        return ""
    items = []
    for number, text, similarity in rows:
        word, _, meaning = text.partition(": ")
        link = html.escape(urllib.parse.urlencode({"like": number, "most": most}))
        items.append(f'<li><p><span class="word">{html.escape(word)}</span>: {html.escape(meaning)}</p>'
                     f'<p class="more">similarity {similarity:.2f} · '
                     f'<a href="/?{link}" aria-label="more like this: {html.escape(word)}">more like this</a></p></li>')
    return '<ol aria-label="Results">\n' + "\n".join(items) + "\n</ol>"


def number_of(text, most):
    """The whole number from 0 to most that a parameter of the address holds, else 0."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most else 0


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        address = urllib.parse.urlsplit(self.path)
        asked = {name: values[0] for name, values in urllib.parse.parse_qs(address.query).items()}
        words = asked.get("q", "").replace("\0", "").strip()[:200]
        like, most = number_of(asked.get("like", ""), 2**31 - 1), number_of(asked.get("most", ""), 10000)
        code, rows = 200, []
        if address.path != "/":
            code, status = 404, "There is no such page."
        else:
            try:
                status, rows = search(words, like, most)
            except Trouble as trouble:
                status = str(trouble)
            except psycopg.Error as error:
                code, status = 503, "The database does not answer."
                self.log_error("%s", error)
        choices = "".join(f'<option value="{value}"{" selected" if int(value) == most else ""}>{name}</option>'
                          for value, name in LENGTHS.items())
        body = PAGE.format(title=html.escape(f"{words} – Dictionary by meaning" if words else "Dictionary by meaning"),
                           style=STYLE, words=html.escape(words), choices=choices, status=html.escape(status),
                           results=shown(rows, most)).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
        self.end_headers()
        self.wfile.write(body)


def load_sample(rows):
    """Makes the table of the demo, with its first rows, and the index, unless there is such a table."""
    with psycopg.connect(autocommit=True) as conn:
        if conn.execute("SELECT to_regclass('glosses') IS NOT NULL").fetchone()[0]:
            return
        conn.execute("CREATE EXTENSION IF NOT EXISTS grnnd CASCADE")
        made = subprocess.run([sys.executable, SAMPLE, "glosses"], stdout=subprocess.PIPE, check=True).stdout
        with conn.transaction():
            conn.execute("CREATE TABLE glosses (id int PRIMARY KEY, text text, embedding vector(384))")
            with conn.cursor().copy("COPY glosses FROM STDIN") as copy:
                copy.write(b"".join(made.splitlines(keepends=True)[:rows]))
            conn.execute("CREATE INDEX glosses_embedding ON glosses USING grnnd (embedding vector_cosine_ops)")
        conn.execute("VACUUM ANALYZE glosses")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--sample", type=int, metavar="ROWS")
    args = parser.parse_args()
    if args.sample:
        load_sample(args.sample)
    server = http.server.ThreadingHTTPServer((args.host, args.port), Page)
    print(f"http://{args.host}:{server.server_port}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
