"""Predicates as columns: how millions of subscriptions are read, sent and compiled.

Each row is one predicate; the rows of a subscription are consecutive.
A number is its nearest float64 and an exact rest (zero except for integers beyond 2^53), so that no integer is rounded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenflow.subscriptions.language import (
    EXACT,
    INT64_MAX,
    INT64_MIN,
    LanguageError,
    Predicate,
    Subscription,
    parse_subscription,
)

Bools = npt.NDArray[np.bool_]
Int8s = npt.NDArray[np.int8]
Int16s = npt.NDArray[np.int16]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Exact = npt.NDArray[np.complex128]  # numbers as float64 and rest

EQ, NEQ, PREFIX, SUFFIX, CONTAINS, STRING = range(6)
EQUAL, UNEQUAL, LESS, AT_MOST, MORE, AT_LEAST, NUMBER = range(6, 13)
ANY = 13
STRING_CODES = {"eq": EQ, "neq": NEQ, "str-prefix": PREFIX, "str-suffix": SUFFIX, "str-contains": CONTAINS}
STRING_CODES["isPresent"] = STRING
NUMBER_CODES = {"=": EQUAL, "<>": UNEQUAL, "<": LESS, "<=": AT_MOST, ">": MORE, ">=": AT_LEAST, "isPresent": NUMBER}

_OPERATORS = {code: name for codes in (STRING_CODES, NUMBER_CODES) for name, code in codes.items()}
_LARGEST = sys.float_info.max
_REST_LIMIT = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Predicates:
    """The predicates of ``count`` subscriptions, one row each.

    Parameters
    ----------
    count
        The number of subscriptions; one without rows matches every publication.
    owner
        The subscription of each row, 0 to ``count`` - 1, ascending.
    attribute
        The row's attribute, as an index into ``attributes``.
    operator
        One of the operator codes of this module; the code also determines the type.
    number, rest
        The operand of a number operator: the nearest float64, and the difference to the exact value.
    text
        The operand of a string operator, as an index into ``texts``, otherwise -1.
    """

    count: int
    owner: Int32s
    attribute: Int32s
    operator: Int8s
    number: Floats
    rest: Int16s
    text: Int32s
    attributes: tuple[str, ...]
    texts: tuple[str, ...]

    @staticmethod
    def of(subscriptions: Iterable[Subscription]) -> Predicates:
        """Return the columns of subscriptions; each distinct predicate is read once.

        Examples
        --------
        >>> from evenflow.subscriptions.language import parse_subscription
        >>> Predicates.of([parse_subscription("[volume,>,300000],[class,eq,'STOCK']")]).attributes
        ('volume', 'class')
        """
        known: dict[Predicate, int] = {}
        rows: list[int] = []
        lengths: list[int] = []
        for subscription in subscriptions:
            lengths.append(len(subscription.predicates))
            rows.extend(known.setdefault(predicate, len(known)) for predicate in subscription.predicates)
        distinct = _lay_out(list(known))
        owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        return distinct.take(np.array(rows, dtype=np.int64), owner, len(lengths))

    def take(self, rows: Int64s, owner: Int32s, count: int) -> Predicates:
        """Return some rows, in any order and number, with new owners."""
        columns = {name: getattr(self, name)[rows] for name in ("attribute", "operator", "number", "rest", "text")}
        return replace(self, count=count, owner=owner, **columns)

    def only(self, chosen: Int64s) -> Predicates:
        """Return some of the subscriptions, given by ascending number."""
        number = np.full(self.count, -1, dtype=np.int32)
        number[chosen] = np.arange(len(chosen), dtype=np.int32)
        owner = number[self.owner]
        rows = np.flatnonzero(owner >= 0)
        return self.take(rows, owner[rows], len(chosen))

    @staticmethod
    def concat(parts: Sequence[Predicates]) -> Predicates:
        """Return one table with the subscriptions of several."""
        if len(parts) == 1:
            return parts[0]
        attributes, attribute_codes = _one_vocabulary([part.attributes for part in parts])
        texts, text_codes = _one_vocabulary([part.texts for part in parts])
        firsts = np.cumsum([0, *(part.count for part in parts)])
        owners = [part.owner + np.int32(first) for part, first in zip(parts, firsts, strict=False)]
        return Predicates(
            int(firsts[-1]),
            np.concatenate(owners).astype(np.int32, copy=False),
            np.concatenate([codes[part.attribute] for part, codes in zip(parts, attribute_codes, strict=True)]),
            np.concatenate([part.operator for part in parts]),
            np.concatenate([part.number for part in parts]),
            np.concatenate([part.rest for part in parts]),
            np.concatenate([codes[part.text] for part, codes in zip(parts, text_codes, strict=True)]),
            attributes,
            texts,
        )

    def to_arrow(self) -> pa.RecordBatch:
        """Return the table as an Arrow record batch, which :meth:`from_arrow` reads."""
        columns = {
            "owner": pa.array(self.owner),
            "attribute": pa.DictionaryArray.from_arrays(self.attribute, pa.array(self.attributes, pa.string())),
            "operator": pa.array(self.operator),
            "number": pa.array(self.number),
            "rest": pa.array(self.rest),
            "text": pa.DictionaryArray.from_arrays(
                pa.array(self.text, mask=self.text < 0), pa.array(self.texts, pa.string())
            ),
        }
        batch = pa.RecordBatch.from_pydict(columns)
        return batch.replace_schema_metadata({"count": str(self.count)})

    @staticmethod
    def from_arrow(batch: pa.RecordBatch) -> Predicates:
        """Return the table that :meth:`to_arrow` wrote."""
        attribute, text = batch.column("attribute"), batch.column("text")
        return Predicates(
            int(batch.schema.metadata[b"count"]),
            batch.column("owner").to_numpy(),
            attribute.indices.to_numpy(),
            batch.column("operator").to_numpy(),
            batch.column("number").to_numpy(),
            batch.column("rest").to_numpy(),
            text.indices.fill_null(-1).to_numpy(zero_copy_only=False),
            tuple(attribute.dictionary.to_pylist()),
            tuple(text.dictionary.to_pylist()),
        )


@dataclass(frozen=True, slots=True)
class ParsedLines:
    """The result of parsing many lines: the good ones as columns, the faults of the others by line number from 0."""

    predicates: Predicates
    good: Int64s
    faults: dict[int, LanguageError]


def read_lines(lines: pa.Array | Sequence[str]) -> ParsedLines:
    """Parse many subscriptions at once, each distinct predicate once.

    Parameters
    ----------
    lines
        One subscription each, as text; a null is a fault.

    Examples
    --------
    >>> reading = read_lines(["[price,>,10]", "[price,>,10],[class,eq,'STOCK']", "[price]"])
    >>> reading.good.tolist(), str(reading.faults[2])
    ([0, 1], "line 1, column 7: expected a comma, found ']'")
    """
    texts = pa.array(lines, pa.string()) if not isinstance(lines, pa.Array) else lines.cast(pa.string())
    inner = pc.replace_substring_regex(texts, r"^\[(.*)\]$", r"\1").fill_null("")
    pieces = pc.split_pattern(inner, "],[")
    lengths = np.diff(pieces.offsets.to_numpy()).astype(np.int64)
    encoded = pieces.flatten().dictionary_encode()
    simple, row_of_piece = _read_simple(encoded.dictionary)
    known = _read_pieces(encoded.dictionary, row_of_piece, len(simple.owner))
    rows = row_of_piece[encoded.indices.to_numpy()]
    owner = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)

    # A piece that is not a predicate may be part of a string that contains "],[": such lines are parsed whole.
    unclear = np.zeros(len(texts), dtype=bool)
    unclear[owner[rows < 0]] = True
    bracketed = pc.and_(pc.starts_with(texts, "["), pc.ends_with(texts, "]")).to_numpy(zero_copy_only=False)
    unclear[bracketed != True] = True  # noqa: E712 - a null line is neither
    faults: dict[int, LanguageError] = {}
    whole: dict[int, list[int]] = {}
    for line in np.flatnonzero(unclear).tolist():
        try:
            subscription = parse_subscription(texts[line].as_py() or "")
        except LanguageError as fault:
            faults[line] = fault
        else:
            base = len(simple.owner)
            whole[line] = [known.setdefault(predicate, base + len(known)) for predicate in subscription.predicates]
    table = Predicates.concat([simple, _lay_out(list(known))])
    keep = ~unclear[owner]
    rows, owner = rows[keep], owner[keep]
    if whole:
        extra_owner = np.repeat(np.array(list(whole), dtype=np.int64), [len(line_rows) for line_rows in whole.values()])
        owner = np.concatenate([owner, extra_owner])
        rows = np.concatenate(
            [rows, np.array([row for line_rows in whole.values() for row in line_rows], dtype=np.int64)]
        )
        order = np.argsort(owner, kind="stable")
        rows, owner = rows[order], owner[order]
    fine = np.ones(len(texts), dtype=bool)
    fine[list(faults)] = False
    good = np.flatnonzero(fine)
    number = np.cumsum(fine, dtype=np.int32) - 1
    return ParsedLines(table.take(rows, number[owner].astype(np.int32), len(good)), good, faults)


# Plain predicates, which are most, are parsed as columns; all others, and all faults, go to the parser.
_PLAIN = r"^(?P<attribute>[A-Za-z_][A-Za-z0-9_.]*),"
_PLAIN_NUMBER = _PLAIN + r"(?P<operator>=|<>|<|<=|>|>=),(?P<operand>-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,20})?)$"
_PLAIN_STRING = _PLAIN + r"(?P<operator>eq|neq|str-prefix|str-suffix|str-contains),'(?P<operand>[^'\\]*)'$"


def _read_simple(pieces: pa.Array) -> tuple[Predicates, Int64s]:
    """Parse plain predicates; return them and the row of each piece, -1 for the others."""
    numbers, strings = (pc.extract_regex(pieces, pattern) for pattern in (_PLAIN_NUMBER, _PLAIN_STRING))
    rows = np.full(len(pieces), -1, dtype=np.int64)
    at_number, at_string = (
        np.flatnonzero(pieces_read.is_valid().to_numpy(zero_copy_only=False)) for pieces_read in (numbers, strings)
    )
    rows[at_number] = np.arange(len(at_number))
    rows[at_string] = len(at_number) + np.arange(len(at_string))
    numbers, strings = numbers.take(pa.array(at_number)), strings.take(pa.array(at_string))
    named = pa.concat_arrays([numbers.field("attribute"), strings.field("attribute")]).dictionary_encode()
    texts = strings.field("operand").dictionary_encode()
    size, first = len(named), len(at_number)
    number, text = np.zeros(size, dtype=np.float64), np.full(size, -1, dtype=np.int32)
    number[:first] = pc.cast(numbers.field("operand"), pa.float64()).to_numpy()
    text[first:] = texts.indices.to_numpy()
    operator = np.concatenate([_codes(numbers, NUMBER_CODES), _codes(strings, STRING_CODES)])
    plain = Predicates(
        1,
        np.zeros(size, dtype=np.int32),
        named.indices.to_numpy(),
        operator,
        number,
        np.zeros(size, dtype=np.int16),
        text,
        tuple(named.dictionary.to_pylist()),
        tuple(texts.dictionary.to_pylist()),
    )
    return plain, rows


def _codes(pieces: pa.Array, codes: Mapping[str, int]) -> Int8s:
    names = list(codes)
    places = pc.index_in(pieces.field("operator"), value_set=pa.array(names)).to_numpy(zero_copy_only=False)
    by_place: Int8s = np.array([*codes.values(), 0], dtype=np.int8)
    return by_place[np.asarray(places, dtype=np.int64)]


def _read_pieces(pieces: pa.Array, rows: Int64s, base: int) -> dict[Predicate, int]:
    """Parse the pieces that have no row yet, and number their predicates from ``base`` on."""
    known: dict[Predicate, int] = {}
    for number in np.flatnonzero(rows < 0).tolist():
        try:
            predicates = parse_subscription(f"[{pieces[number].as_py()}]").predicates
        except LanguageError:
            continue
        if len(predicates) == 1:
            rows[number] = known.setdefault(predicates[0], base + len(known))
    return known


def write_lines(predicates: Predicates) -> pa.Array:
    """Return many subscriptions as text, which :func:`read_lines` reads.

    Examples
    --------
    >>> write_lines(read_lines(["[price,>,10],[name,eq,'a']"]).predicates)[0].as_py()
    "[price,>,10],[name,eq,'a']"
    """
    operators = pa.array([*(_OPERATORS[code] for code in range(ANY)), "eq"]).take(pa.array(predicates.operator))
    escaped = [text.replace("\\", "\\\\").replace("'", "\\'") for text in (*predicates.texts, "")]
    texts = pa.array([f"'{text}'" for text in escaped]).take(
        pa.array(np.where(predicates.text < 0, len(predicates.texts), predicates.text))
    )
    numbers = np.array(pc.cast(pa.array(predicates.number), pa.string()).to_pylist(), dtype=object)
    for row in np.flatnonzero(predicates.rest):
        numbers[row] = str(int(predicates.number[row]) + int(predicates.rest[row]))
    is_number = (predicates.operator >= EQUAL) & (predicates.operator <= NUMBER)
    operands = pc.if_else(pa.array(is_number), pa.array(numbers, pa.string()), texts)
    operands = pc.if_else(pa.array(predicates.operator == ANY), "*", operands)
    names = pa.array(predicates.attributes, pa.string()).take(pa.array(predicates.attribute))
    written = pc.binary_join_element_wise(names, operators, operands, ",")
    pieces = pc.binary_join_element_wise("[", written, "]", "")
    starts = np.searchsorted(predicates.owner, np.arange(predicates.count + 1)).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(starts), pieces), ",")


def split_number(value: float) -> tuple[float, int]:
    """Return a number as its nearest float64 and the exact rest; pairs sort like the numbers.

    Examples
    --------
    >>> split_number(2**53 + 1)
    (9007199254740992.0, 1)
    """
    if not isinstance(value, int):
        return value, 0
    try:
        near = float(value)
    except OverflowError:  # larger than every finite float64
        near = _LARGEST if value > 0 else -_LARGEST
    return near, max(-_REST_LIMIT, min(_REST_LIMIT, value - int(near)))


def join_exact(near: Floats, rest: npt.ArrayLike | None) -> Exact:
    """Join the nearest float64 and the rest in one sortable value: numpy orders complex numbers by real part first."""
    joined = np.zeros(len(near), dtype=np.complex128)
    joined.real = near
    joined.imag = 0 if rest is None else rest
    return joined


def _lay_out(predicates: list[Predicate]) -> Predicates:
    """Return the columns of distinct predicates; ``take`` gives them their owners."""
    attributes: dict[str, int] = {}
    texts: dict[str, int] = {}
    size = len(predicates)
    attribute, operator = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int8)
    number, rest = np.zeros(size, dtype=np.float64), np.zeros(size, dtype=np.int16)
    text = np.full(size, -1, dtype=np.int32)
    for row, predicate in enumerate(predicates):
        attribute[row] = attributes.setdefault(predicate.attribute, len(attributes))
        value = predicate.value
        if value is None:
            operator[row] = ANY
        elif isinstance(value, str):
            operator[row] = STRING_CODES[predicate.operator]
            if operator[row] != STRING:  # the operand of isPresent only determines the type
                text[row] = texts.setdefault(value, len(texts))
        else:
            operator[row] = NUMBER_CODES[predicate.operator]
            if operator[row] != NUMBER:
                number[row], rest[row] = split_number(value)
    owner = np.zeros(size, dtype=np.int32)
    return Predicates(1, owner, attribute, operator, number, rest, text, tuple(attributes), tuple(texts))


def _one_vocabulary(parts: list[tuple[str, ...]]) -> tuple[tuple[str, ...], list[Int32s]]:
    """Return one vocabulary for several, and the new codes of each; -1 stays -1."""
    known: dict[str, int] = {}
    codes = [np.array([*(known.setdefault(word, len(known)) for word in part), -1], dtype=np.int32) for part in parts]
    return tuple(known), codes


def subscriptions_of(predicates: Predicates) -> list[Subscription]:
    """Return the subscriptions that the columns hold.

    Numbers keep their value, but may change between integer and float;
    the operand of ``isPresent`` becomes 0 or ''.
    """
    rows: list[list[Predicate]] = [[] for _ in range(predicates.count)]
    for owner, predicate in zip(predicates.owner.tolist(), predicates_of(predicates), strict=True):
        rows[owner].append(predicate)
    return [Subscription(tuple(row)) for row in rows]


def predicates_of(predicates: Predicates, rows: Int64s | slice = slice(None)) -> Iterator[Predicate]:
    """Return the predicates of some rows; equal rows share one object."""
    known: dict[tuple[int, int, float, int, int], Predicate] = {}
    columns = (predicates.attribute, predicates.operator, predicates.number, predicates.rest, predicates.text)
    for key in zip(*(column[rows].tolist() for column in columns), strict=True):
        if key not in known:
            known[key] = _predicate(predicates, *key)
        yield known[key]


def _predicate(predicates: Predicates, attribute: int, operator: int, number: float, rest: int, text: int) -> Predicate:
    name = predicates.attributes[attribute]
    if operator == ANY:
        return Predicate(name, "eq", None)
    if operator <= STRING:
        return Predicate(name, _OPERATORS[operator], predicates.texts[text] if text >= 0 else "")
    return Predicate(name, _OPERATORS[operator], _exact_number(number, rest))


def _exact_number(number: float, rest: int) -> int | float:
    """Return the number with this nearest float64 and this exact rest."""
    whole = int(number) + rest if abs(number) >= EXACT else 0
    return whole if whole and INT64_MIN <= whole <= INT64_MAX else number
