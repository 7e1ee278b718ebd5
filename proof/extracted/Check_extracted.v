(* SPDX-License-Identifier: BSD-2-Clause

   The checker of traces as a program; check.ml reads the traces for it (proof/README.md).

   Z becomes the int of OCaml, of 63 bits. traces.ml refuses numbers of 2^61 and more, and drift_fits_64_bits
   speaks for the drift; sums of two such numbers, and run_of, which splits its product, stay below 2^62. *)
Require Import ZArith.
From Redlock Require Import Arithmetic Classic ClassicTraces.
From Redlock Require Import Ints.

Extraction "proved.ml" is_sound check check_one first_table validity_end system_of as_state whole_ms clock_at.
