(* SPDX-License-Identifier: BSD-2-Clause

   The checker of guarded traces as a program; check_guarded.ml reads the traces for it (proof/README.md).

   Z becomes the int of OCaml, as in Check_extracted.v: traces.ml refuses numbers of 2^61 and more. *)
Require Import ZArith.
From Redlock Require Import Arithmetic GuardedHistory Guarded GuardedTraces.
Require Import ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt.

(* As in Arithmetic_extracted.v. *)
Extract Constant Z.compare => "fun (x : int) y -> if x = y then Eq else if x < y then Lt else Gt".
Extract Constant Z.eqb => "fun (x : int) y -> x = y".
Extract Constant Z.ltb => "fun (x : int) y -> x < y".
Extract Constant Z.leb => "fun (x : int) y -> x <= y".
Extract Constant Z.div => "fun a b -> if a < 0 || b <= 0 then invalid_arg ""div"" else a / b".
Extract Constant Z.modulo => "fun a b -> if a < 0 || b <= 0 then invalid_arg ""modulo"" else a mod b".
Extract Inlined Constant Nat.eqb => "((=) : int -> int -> bool)".
Extract Inlined Constant Nat.leb => "((<=) : int -> int -> bool)".
Extract Inlined Constant Nat.ltb => "((<) : int -> int -> bool)".
Extract Inlined Constant Nat.div => "(/)".
Extract Inlined Constant Nat.modulo => "(mod)".
Extract Inlined Constant Nat.max => "(Stdlib.max : int -> int -> int)".

(* The same functions, with values that are computed beforehand. *)
Extract Constant memo => "fun n f -> let known = Array.init n f in fun i -> if i < n then known.(i) else f i".
Extract Constant nth_of => "fun l otherwise ->
  let all = Array.of_list l in fun i -> if i < Array.length all then all.(i) else otherwise".

Extraction "proved.ml" is_sound is_confirmed check check_one sizes_of initial system_of is_view is_vote is_extension is_confirmation is_owned clock_at.
