(* SPDX-License-Identifier: BSD-2-Clause

   The checker of traces as a program; check.ml reads the traces for it (proof/README.md).

   Z becomes the int of OCaml, of 63 bits. traces.ml refuses numbers of 2^61 and more, and drift_fits_64_bits
   speaks for the drift; sums of two such numbers, and run_of, which splits its product, stay below 2^62. *)
Require Import ZArith.
From Redlock Require Import Arithmetic Classic ClassicTraces.
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

Extraction "proved.ml" is_sound check check_one first_table validity_end system_of as_state whole_ms clock_at.
