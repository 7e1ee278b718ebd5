#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# scripts/proof fails if something is not proved. Each case plants one fault in a copy of the smallest file.
# usage: notices.sh SOURCE_DIR
set -euo pipefail
source=$1
command -v coqc > /dev/null || { echo "Coq is missing"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# One file with one theorem, quoted.
fresh() {
    rm -rf "$dir/tree"
    mkdir -p "$dir/tree/proof" "$dir/tree/docs"
    cp "$source/proof/Arithmetic.v" "$dir/tree/proof"
    printf -- '-Q . Redlock\nArithmetic.v\n' > "$dir/tree/proof/_CoqProject"
    printf 'Theorem two : 1 + 1 = 2.\n' | tee "$dir/tree/docs/proof.md" >> "$dir/tree/proof/Arithmetic.v"
    printf 'Proof. reflexivity. Qed.\n' >> "$dir/tree/proof/Arithmetic.v"
}
refuses() { # WHAT MESSAGE
    if "$source/scripts/proof" --no-install --source "$dir/tree" > "$dir/out" 2>&1; then
        echo "not noticed: $1"
        exit 1
    fi
    grep -qF "$2" "$dir/out" || { echo "$1: noticed for another reason:"; cat "$dir/out"; exit 1; }
    echo "noticed: $1"
}
plant() { # WHAT MESSAGE TEXT
    fresh
    printf '%s\n' "$3" >> "$dir/tree/proof/Arithmetic.v"
    refuses "$1" "$2"
}

plant "an axiom" "leaves something unproved" 'Axiom wrong : 1 = 2.'
plant "a lemma without a proof" "leaves something unproved" 'Lemma wrong : 1 = 2. Admitted.'
plant "an assumption outside a section" "an assumption outside a section" 'Hypothesis wrong : 1 = 2.'
plant "a lemma that is false" "does not compile" 'Lemma wrong : 1 = 2. Proof. reflexivity. Qed.'
plant "a theorem that the page does not quote" "does not quote more" 'Theorem more : 1 + 2 = 3. Proof. reflexivity. Qed.'
fresh
sed -i 's/1 + 1 = 2/1 + 1 = 3/' "$dir/tree/docs/proof.md"
refuses "a theorem that the page quotes wrongly" "does not quote two"
fresh
printf 'Require Import ZArith.\n' > "$dir/tree/proof/Other.v"
refuses "a file that is not listed" "does not list"
# An axiom that no word of ours shows: one of the standard library.
fresh
printf 'Require Import Classical.\nTheorem middle : forall P : Prop, P \\/ ~ P.\nProof. exact classic. Qed.\n' >> "$dir/tree/proof/Arithmetic.v"
printf 'Theorem middle : forall P : Prop, P \\/ ~ P.\n' >> "$dir/tree/docs/proof.md"
refuses "an axiom of the standard library" "rests on more than Coq"
