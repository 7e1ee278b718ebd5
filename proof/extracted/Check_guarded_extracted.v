(* SPDX-License-Identifier: BSD-2-Clause

   The checker of guarded traces as a program; check_guarded.ml reads the traces for it (proof/README.md).

   Z becomes the int of OCaml, as in Check_extracted.v: traces.ml refuses numbers of 2^61 and more. *)
Require Import ZArith.
From Redlock Require Import Arithmetic GuardedHistory Guarded GuardedTraces.
From Redlock Require Import Ints.

(* The same functions, with values that are computed beforehand. *)
Extract Constant memo => "fun n f -> let known = Array.init n f in fun i -> if i < n then known.(i) else f i".
Extract Constant nth_of => "fun l otherwise ->
  let all = Array.of_list l in fun i -> if i < Array.length all then all.(i) else otherwise".

Extraction "proved.ml" is_sound is_confirmed check check_one sizes_of initial system_of is_view is_vote is_extension is_confirmation is_owned clock_at.
