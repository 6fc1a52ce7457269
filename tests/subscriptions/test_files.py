from __future__ import annotations

import gzip
import io
import pickle
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subscription_strategies import any_publication, any_subscription

from evenflow.errors import BadInput
from evenflow.subscriptions.columns import subscriptions_of
from evenflow.subscriptions.files import MalformedLines, read_publications, read_subscriptions, refuse_faults
from evenflow.subscriptions.language import format_publication, format_subscription
from evenflow.subscriptions.normal import normalize


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes, name: str = "given.txt") -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def places(file):
    return [(fault.line, fault.column) for fault in file.faults]


def test_subscriptions_come_ascending_by_id(write):
    path = write("10\t[a,=,1]\n\n# 3\t[c,=,1]\n9\t[b,eq,'x'] \r\n")
    file = read_subscriptions(path)
    assert (file.ids, file.faults) == (["9", "10"], [])
    assert [s.predicates[0].attribute for s in subscriptions_of(file.predicates)] == ["b", "a"]


def test_only_the_line_feed_ends_a_line(write):
    path = write("[a,'x\u2028y\x0b\x85\r']\r\n[b,1]\r\n")
    assert read_publications(path).publications == [{"a": "x\u2028y\x0b\x85\r"}, {"b": 1}]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_plain_and_gzip_and_a_byte_order_mark(write, pack):
    assert read_publications(write(pack(b"\xef\xbb\xbf[a,1]\n"))).publications == [{"a": 1}]


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress("[é,1]".encode()))))
    assert read_publications("-").publications == [{"é": 1}]


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing\n", "  \t \r\n"])
def test_files_that_say_nothing(write, content):
    path = write(content)
    assert (read_subscriptions(path).ids, read_publications(path).publications) == ([], [])
    assert read_subscriptions(path).predicates.count == 0


def test_every_malformed_line_is_found(write):
    lines = [
        b"1\t[a,=,1]",
        b"2 [a,=,1]",
        b"\t[a,=,1]",
        b"1\t[a,=,2]",
        "größe\t[a,=,1],[größe,eq,5]".encode(),
        b"6\t",
        b"7\t[a,=,\xff]",
        "é8\té\t".encode(),
        b"9\t[a,eq,'],[',[b,=,1]",
        b"10\t[a,eq,'],['],[b,=,1]",
    ]
    file = read_subscriptions(write(b"\n".join(lines)))
    assert file.ids == ["1", "10"]
    assert places(file) == [(2, 1), (3, 1), (4, 1), (5, 22), (6, 3), (7, 8), (8, 4), (9, 14)]
    with pytest.raises(MalformedLines) as caught:
        refuse_faults(file, file)
    assert str(caught.value).startswith("16 malformed lines.\n")
    assert str(caught.value).count(":5:22: the operator eq does not go with a number") == 2
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_publications_have_faults_too(write):
    file = read_publications(write("[a,1],[a,2]\n[b,'x]\n[c,9223372036854775808]\n[d,1]\n"))
    assert places(file) == [(1, 8), (2, 4), (3, 4)]
    assert file.publications == [{"d": 1}]


@pytest.mark.parametrize("read", [read_subscriptions, read_publications])
def test_files_that_cannot_be_read(write, tmp_path, read):
    whole = gzip.compress(b"[a,1]\n" * 1000)
    damaged = bytearray(whole)
    damaged[20] ^= 255
    for path in [str(tmp_path), str(tmp_path / "none"), "\0", write(whole[:-9]), write(bytes(damaged), "b")]:
        with pytest.raises(BadInput) as caught:
            read(path)
        assert "\n" not in str(caught.value)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text("ab1 é-", min_size=1, max_size=3), any_subscription, max_size=5))
def test_what_is_written_is_read(tmp_path_factory, subscriptions):
    texts = {name: format_subscription(subscription) for name, subscription in subscriptions.items()}
    texts = {name: text for name, text in texts.items() if "\n" not in text and name.strip()}
    path = tmp_path_factory.mktemp("written") / "subs"
    path.write_bytes("".join(f"{name}\t{text}\n" for name, text in texts.items()).encode())
    file = read_subscriptions(str(path))
    assert not file.faults
    again = dict(zip(file.ids, map(normalize, subscriptions_of(file.predicates)), strict=True))
    assert again == {name: normalize(subscriptions[name]) for name in texts}


@settings(max_examples=100, deadline=None)
@given(st.lists(any_publication, max_size=5))
def test_publications_that_are_written_are_read(tmp_path_factory, publications):
    texts = {text: p for p in publications if "\n" not in (text := format_publication(p))}
    path = tmp_path_factory.mktemp("written") / "pubs"
    path.write_bytes("\n".join(texts).encode())
    file = read_publications(str(path))
    assert (file.publications, file.faults) == (list(texts.values()), [])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text("[],'a=1\t\n#\\ é").map(str.encode))
def test_no_content_raises(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(content)
    for read in (read_subscriptions, read_publications):
        try:
            file = read(str(path))
        except BadInput:
            assert content.startswith(b"\x1f\x8b")
        else:
            for fault in file.faults:
                line = content.split(b"\n")[fault.line - 1]
                assert 1 <= fault.column <= len(line.decode(errors="replace")) + 1
