#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Subject:   pyturso 0.8.3 (PyPI: Turso, a database with SQLite's file format) with journal_mode=mvcc, BEGIN CONCURRENT as a fenced
#            resource
# Behaviour: a statement that meets another transaction's row raises "Write-write conflict", and ends its own transaction with
#            it. The connection is then in autocommit, without a word. A program that catches the error and tries the statement
#            again writes the rest of its "transaction" one statement at a time, and can take nothing back.
# Expected:  that the error of a statement leaves the transaction open, as SQLITE_BUSY does in SQLite, until ROLLBACK; or that
#            each statement fails until then, as in PostgreSQL.
# Seen:      after the conflict in_transaction is False; the second statement is stored at once, and survives ROLLBACK, which raises.
# For us:    a program that raises a fence and writes data in one transaction begins again with BEGIN after any error.
# Needs:     python3 with venv and pip
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install pyturso==0.8.3

venv/bin/python - << 'PYTHON'
import sys, turso


def connect():
    return turso.connect("gate.db", isolation_level=None)


def fails(connection, statement):
    try:
        connection.execute(statement)
    except turso.DatabaseError as error:
        return str(error)
    return None


first, second, third = connect(), connect(), connect()
first.execute("PRAGMA journal_mode = mvcc").fetchall()
first.execute("CREATE TABLE gate (fence INTEGER)")
first.execute("CREATE TABLE account (balance INTEGER)")
first.execute("INSERT INTO gate VALUES (1)")
first.execute("INSERT INTO account VALUES (0)")

first.execute("BEGIN CONCURRENT")
first.execute("UPDATE gate SET fence = 3 WHERE fence < 3")
second.execute("BEGIN CONCURRENT")
conflict = fails(second, "UPDATE gate SET fence = 2 WHERE fence < 2")
still = second.in_transaction
second.execute("UPDATE account SET balance = balance + 100")  # the program took the conflict for a harmless one
rollback = fails(second, "ROLLBACK")
first.execute("COMMIT")
balance = third.execute("SELECT balance FROM account").fetchall()
print(f"conflict: {conflict}; in a transaction: {still}; rollback: {rollback}; then {balance}")
if "conflict" not in str(conflict) or still or rollback is None or balance != [(100,)]:
    sys.exit("turso_conflict_ends_the_transaction: changed: expected no transaction after the conflict, and 100 in the account")
PYTHON
