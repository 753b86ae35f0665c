"""Bodies that are no JSON, or JSON that parsers read in different ways."""

from tests.hostile.case import Case, written

DEEP = 100_000
IDS = b'{"input_ids": [4], '
GOOD = b'{"input_ids": [4], "sampling_params": {"max_new_tokens": 2}}'
CHAT = b'{"messages": [{"role": "user", "content": "a"}], '

CASES = [
    *written(
        "/generate",
        "body",
        [
            ("nothing but brackets", b"[" * DEEP),
            ("nothing but objects", b'{"a":' * DEEP),
            ("deep but closed", b"[" * DEEP + b"]" * DEEP),
            ("deep within a field", IDS + b'"rid": ' + b"[" * DEEP + b"]" * DEEP + b"}"),
            ("NUL bytes", bytes(100)),
            ("half a document", b'{"input_ids": [4'),
            ("two documents", GOOD + GOOD),
            ("rubbish behind", GOOD + b"x"),
            ("a comment", b'{"input_ids": [4] /* all */}'),
            ("a comma too many", b'{"input_ids": [4,]}'),
            ("single quotes", b"{'input_ids': [4]}"),
            ("no quotes", b"{input_ids: [4]}"),
            ("Python", b'{"input_ids": [4], "stream": False}'),
            ("a leading zero", b'{"input_ids": [04]}'),
            ("a plus", b'{"input_ids": [+4]}'),
            ("hexadecimal", b'{"input_ids": [0x4]}'),
            ("NaN", IDS + b'"sampling_params": {"temperature": NaN}}'),
            ("Infinity", IDS + b'"sampling_params": {"temperature": Infinity}}'),
            ("-Infinity", IDS + b'"sampling_params": {"temperature": -Infinity}}'),
            ("a float beyond all", IDS + b'"sampling_params": {"temperature": 1e400}}'),
            ("a float with a long exponent", IDS + b'"sampling_params": {"temperature": 1e' + b"9" * 5000 + b"}}"),
            ("a number of 5000 digits", b'{"input_ids": [' + b"9" * 5000 + b"]}"),
            ("a number of a million digits", b'{"input_ids": [' + b"9" * 10**6 + b"]}"),
            ("a key twice", b'{"input_ids": [4], "input_ids": [5]}'),
            ("the same key and value twice", b'{"input_ids": [4], "input_ids": [4]}'),
            ("a key twice within", IDS + b'"sampling_params": {"n": 1, "n": 2}}'),
            ("a key twice, once escaped", b'{"input_ids": [4], "input\\u005fids": [5]}'),
            ("a key of a million letters twice", b'{"' + b"a" * 10**6 + b'": 1, "' + b"a" * 10**6 + b'": 1}'),
            ("an unknown key twice", b'{"x": 1, "x": 2}'),
            ("the last key twice", b'{"a": {"b": {"c": 1, "c": 1}}}'),
            ("Latin-1", b'{"text": "caf\xe9"}'),
            ("a surrogate in bytes", b'{"text": "\xed\xa0\x80"}'),
            ("an overlong slash", b'{"text": "\xc0\xaf"}'),
            ("UTF-16", '{"input_ids": [4]}'.encode("utf-16")),
            ("UTF-32", '{"input_ids": [4]}'.encode("utf-32")),
            ("UTF-8 with a mark", b"\xef\xbb\xbf" + GOOD),
            ("a control character", b'{"text": "\x01"}'),
            ("a wrong escape", b'{"text": "\\x41"}'),
            ("half an escape", b'{"text": "\\u12"}'),
            ("a form", b"input_ids=4&stream=true"),
            ("XML", b"<input_ids>4</input_ids>"),
            ("YAML", b"input_ids: [4]\n"),
            ("msgpack", b"\x81\xa9input_ids\x91\x04"),
            ("gzip without its header", b"\x1f\x8b\x08\x00\x00\x00\x00\x00"),
        ],
    ),
    *written(
        "/generate",
        "",
        [
            ("an empty body", b""),
            ("an empty object", b"{}"),
            ("null", b"null"),
            ("a list", b"[4]"),
            ("a number", b"4"),
            ("a string", b'"a"'),
            ("true", b"true"),
            ("an empty key", b'{"": 1}'),
            ("a number of 400 digits", b'{"input_ids": [' + b"9" * 400 + b"]}"),
            ("a temperature of 400 digits", IDS + b'"sampling_params": {"temperature": ' + b"9" * 400 + b"}}"),
            ("a seed of 4000 digits", IDS + b'"sampling_params": {"sampling_seed": ' + b"9" * 4000 + b"}}"),
        ],
    ),
    *(
        Case(name=f"{path} half a surrogate pair in {field} {place}", path=path, content=content, param=field)
        for place, (path, field, content) in enumerate(
            (
                ("/generate", "text", b'{"text": "\\ud800"}'),
                ("/generate", "text", b'{"text": ["a", "\\udfff"]}'),
                ("/generate", "rid", IDS + b'"rid": "\\ud800"}'),
                ("/generate", "sampling_params", IDS + b'"sampling_params": {"stop": "\\udc00"}}'),
                ("/generate", "session_id", IDS + b'"session_id": "\\ud83d"}'),
                ("/generate", "body", IDS + b'"\\ud800": 1}'),
                ("/v1/completions", "prompt", b'{"prompt": "\\ud800"}'),
                ("/v1/completions", "model", b'{"prompt": [4], "model": "\\ud800"}'),
                ("/v1/completions", "user", b'{"prompt": [4], "user": "\\ud800"}'),
                ("/v1/chat/completions", "messages", b'{"messages": [{"role": "user", "content": "\\ud800"}]}'),
                ("/v1/chat/completions", "messages", b'{"messages": [{"role": "\\ud800", "content": "a"}]}'),
                ("/v1/chat/completions", "chat_template", CHAT + b'"chat_template": "\\ud800"}'),
                ("/v1/chat/completions", "request_id", CHAT + b'"request_id": "\\ud800"}'),
                ("/tokenize", "prompt", b'{"prompt": "\\udbff"}'),
                ("/abort_request", "rid", b'{"rid": "\\ud800"}'),
                ("/pause_generation", "mode", b'{"mode": "\\ud800"}'),
                ("/update_weights_from_disk", "model_path", b'{"model_path": "\\ud800"}'),
                ("/update_weights", "weight_dir", b'{"weight_dir": "\\ud800"}'),
                ("/workers", "url", b'{"url": "http://\\ud800"}'),
                ("/destroy_weights_update_group", "group_name", b'{"group_name": "\\ud800"}'),
            )
        )
    ),
    Case(
        name="a whole surrogate pair",
        content=b'{"text": "\\ud83d\\ude00", "sampling_params": {"max_new_tokens": 1}}',
        status=200,
    ),
    Case(name="white space around", content=b" \r\n\t" + GOOD + b"\n", status=200),
]
