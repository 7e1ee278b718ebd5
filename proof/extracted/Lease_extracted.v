(* SPDX-License-Identifier: BSD-2-Clause

   Attempt.v and Lease.v as a program, which lease.ml compares with src/core (proof/README.md). Numbers are as
   in Arithmetic_extracted.v; a set of nodes is an int too, of 16 bits. *)
Require Import ZArith NArith.
From Redlock Require Import Arithmetic Attempt Lease.
Require Import ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt.

Extract Constant Z.compare => "fun (x : int) y -> if x = y then Eq else if x < y then Lt else Gt".
Extract Constant Z.ltb => "fun (x : int) y -> x < y".
Extract Constant Z.leb => "fun (x : int) y -> x <= y".
Extract Constant Z.eqb => "fun (x : int) y -> x = y".
Extract Constant Z.max => "fun (x : int) y -> if x < y then y else x".
Extract Constant Z.min => "fun (x : int) y -> if x < y then x else y".
Extract Constant Z.div => "fun a b -> if a < 0 || b <= 0 then invalid_arg ""div"" else a / b".
Extract Constant Z.modulo => "fun a b -> if a < 0 || b <= 0 then invalid_arg ""modulo"" else a mod b".
Extract Constant Nat.div => "fun a b -> a / b".
Extract Constant Nat.leb => "fun (x : int) y -> x <= y".
Extract Constant Nat.ltb => "fun (x : int) y -> x < y".
Extract Constant N.of_nat => "fun n -> n".
Extract Constant N.eqb => "fun (x : int) y -> x = y".
Extract Constant N.lor => "(lor)".
Extract Constant N.land => "(land)".
Extract Constant N.ldiff => "fun a b -> a land lnot b".
Extract Constant N.shiftl => "(lsl)".
Extract Constant N.testbit => "fun m n -> (m lsr n) land 1 = 1".
Extract Constant N.ones => "fun n -> (1 lsl n) - 1".

Extraction Inline changed.

Extraction "proved.ml" fresh_attempt attempt_step fresh_lease lease_step void disown validity.
