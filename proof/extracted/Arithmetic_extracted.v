(* SPDX-License-Identifier: BSD-2-Clause

   The proof's arithmetic as a program, which arithmetic.ml compares with src/core (proof/README.md).

   Z becomes the int of OCaml, of 63 bits. Nothing overflows: arithmetic.ml refuses inputs beyond the
   limits of drift_fits_64_bits, which proves that each intermediate value of the drift is below 2^62;
   and it refuses clock readings above 2^60, so a reading, a TTL and a drift together are below 2^62. *)
Require Import ZArith.
Open Scope Z_scope.
From Redlock Require Import Arithmetic Classic.
Require Import ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt.

(* Comparisons of ints, not of anything; and division by the processor. On numbers that are not negative
   its division is that of Coq, and only those are divided. *)
Extract Constant Z.compare => "fun (x : int) y -> if x = y then Eq else if x < y then Lt else Gt".
Extract Constant Z.ltb => "fun (x : int) y -> x < y".
Extract Constant Z.leb => "fun (x : int) y -> x <= y".
Extract Constant Z.div => "fun a b -> if a < 0 || b <= 0 then invalid_arg ""div"" else a / b".
Extract Constant Z.modulo => "fun a b -> if a < 0 || b <= 0 then invalid_arg ""modulo"" else a mod b".

(* A system with these settings, in which the client's clock is given as it is read. Nothing else of it
   enters the definitions below. *)
Definition with_settings (ppm fixed : Z) : system :=
  {| list_of := fun _ => nil; reaches := fun _ _ => true; resources_of := fun _ => nil; token_of := fun c => c;
     client_clock := fun _ t => t; server_clock := fun _ t => t;
     client_ppm := 0; server_ppm := fun _ => 0; client_error := 0; server_error := 0;
     drift_ppm := fun _ => ppm; drift_fixed := fixed; steady := fun _ _ => true; quorum := majority_of;
     keeps_data := true; sets_if_absent := true; extend_compares := true; extend_never_shortens := true;
     delete_compares := true; counts_own_round := true; reads_clock_first := true; release_ends := true |}.

(* A round of this TTL, begun when the clock showed `began`, and the state in which it shows `shown`. *)
Definition end_of (ppm fixed began ttl : Z) : Z :=
  validity_end (with_settings ppm fixed) initial (set_of 0%nat began ttl).
Definition inside_until (ppm fixed until shown : Z) : bool :=
  inside (with_settings ppm fixed) (with_now (with_phase initial 0%nat (Holding until)) shown) 0%nat.

Extraction "proved.ml" drift_of majority_of end_of inside_until.
