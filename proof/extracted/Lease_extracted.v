(* SPDX-License-Identifier: BSD-2-Clause

   Attempt.v and Lease.v as a program, which lease.ml compares with src/core (proof/README.md). Numbers are as
   in Ints.v; a set of nodes is an int too, of 16 bits. *)
Require Import ZArith NArith.
From Redlock Require Import Arithmetic Attempt Lease.
From Redlock Require Import Ints.

Extract Constant Z.max => "fun (x : int) y -> if x < y then y else x".
Extract Constant Z.min => "fun (x : int) y -> if x < y then x else y".
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
