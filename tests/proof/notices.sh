#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# scripts/proof fails if something is not proved. Each case plants one fault in a copy of the smallest file. Then rules are
# taken from systems, or weakened: of slots, of shared locks, and of membership changes.
# usage: notices.sh SOURCE_DIR
set -euo pipefail
source=$1
command -v coqc > /dev/null || { echo "Coq is missing"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# One file with one theorem, listed, named and quoted.
fresh() {
    rm -rf "$dir/tree"
    mkdir -p "$dir/tree/proof"
    cp "$source/proof/Arithmetic.v" "$dir/tree/proof"
    printf -- '-Q . Redlock\nArithmetic.v\n' > "$dir/tree/proof/_CoqProject"
    printf 'Theorem two : 1 + 1 = 2.\n' | tee "$dir/tree/proof/theorems.txt" >> "$dir/tree/proof/Arithmetic.v"
    printf '%s\n' "\`two\`:" "\`\`\`coq" 'Theorem two : 1 + 1 = 2.' "\`\`\`" > "$dir/tree/proof/README.md"
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
plant "a proof of 61 lines" "a proof is over 60 lines" \
    "Lemma long : 1 = 1.$(printf '\nProof.'; printf '\n  idtac.%.0s' {1..58}; printf '\n  reflexivity.\nQed.')"
plant "a theorem that is not listed" "theorems.txt does not have more" 'Theorem more : 1 + 2 = 3. Proof. reflexivity. Qed.'
changed() { # WHAT MESSAGE FILE SED_SCRIPT
    fresh
    sed -i "$4" "$dir/tree/proof/$3"
    refuses "$1" "$2"
}
changed "a theorem that is listed wrongly" "theorems.txt does not have two" theorems.txt 's/1 + 1 = 2/1 + 1 = 3/'
changed "a theorem that the page does not name" "README.md does not name two" README.md '1s/two/three/'
changed "a theorem that the page quotes wrongly" "README.md quotes" README.md 's/1 + 1 = 2/1 + 1 = 3/'
changed "a listed theorem that no file has" "that no file has" theorems.txt '1i Theorem gone : 1 = 1.'
fresh
printf 'Require Import ZArith.\n' > "$dir/tree/proof/Other.v"
refuses "a file that is not listed" "does not list"
# A rule of the system is weaker: a proof that needs it fails.
weaker() { # WHAT FILES FILE FROM TO
    rm -rf "$dir/tree"
    mkdir -p "$dir/tree/proof"
    cp "$source"/proof/{README.md,theorems.txt} "$dir/tree/proof"
    printf -- '-Q . Redlock\n' > "$dir/tree/proof/_CoqProject"
    for file in $2; do
        cp "$source/proof/$file.v" "$dir/tree/proof"
        printf '%s.v\n' "$file" >> "$dir/tree/proof/_CoqProject"
    done
    grep -qF -- "$4" "$dir/tree/proof/$3.v" || { echo "$1: $3.v has no $4"; exit 1; }
    python3 - "$dir/tree/proof/$3.v" "$4" "$5" << 'PYTHON'
import sys
name, old, new = sys.argv[1:]
text = open(name, encoding="utf-8").read()
open(name, "w", encoding="utf-8").write(text.replace(old, new))
PYTHON
    refuses "$1" "does not compile"
}
membership="Arithmetic Runs Membership MembershipMajorities MembershipChosen"
weaker "a promise to an equal ballot" "$membership" Membership "(ballot r <? number q)" "(ballot r <=? number q)"
weaker "half of the members is a majority" "$membership" Membership "(majority_of (length l) <=? length held)" \
    "(length l <=? 2 * length held)"
weaker "one witness too few" "Arithmetic Runs Membership MembershipMajorities MembershipLocks MembershipLives" MembershipLocks \
    "(length l <? length held + majority_of (length l))" "(length l <=? length held + majority_of (length l))"
# An axiom that no word of ours shows: one of the standard library.
fresh
printf 'Require Import Classical.\nTheorem middle : forall P : Prop, P \\/ ~ P.\nProof. exact classic. Qed.\n' >> "$dir/tree/proof/Arithmetic.v"
printf 'Theorem middle : forall P : Prop, P \\/ ~ P.\n' >> "$dir/tree/proof/theorems.txt"
printf '%s\n' "\`middle\`" >> "$dir/tree/proof/README.md"
refuses "an axiom of the standard library" "rests on more than Coq"

# Without a rule of the system the proof does not pass.
weaken() { # WHAT FILE FAILS SED_SCRIPT FILES...
    local what=$1 file=$2 fails=$3 script=$4
    shift 4
    rm -rf "$dir/tree"
    mkdir -p "$dir/tree/proof"
    cp "$source"/proof/{README.md,theorems.txt} "$dir/tree/proof"
    for name in "$@"; do cp "$source/proof/$name" "$dir/tree/proof"; done
    { echo '-Q . Redlock'; printf '%s\n' "$@"; } > "$dir/tree/proof/_CoqProject"
    sed -i "$script" "$dir/tree/proof/$file"
    if cmp -s "$dir/tree/proof/$file" "$source/proof/$file"; then echo "$what: nothing to change"; exit 1; fi
    refuses "$what" "$fails does not compile"
}
weaken "an extension of another client's slot" Slots.v SlotsExclusion.v 's/if (owner key =? c)%nat$/if true/' \
    Arithmetic.v Runs.v Classic.v Slots.v SlotsExclusion.v
weaken "a reader that is listed behind a writer's token" Shared.v SharedExclusion.v \
    's/if reader_respects_writer y then (h, false)/if false then (h, false)/' \
    Arithmetic.v Runs.v Classic.v Shared.v SharedExclusion.v
