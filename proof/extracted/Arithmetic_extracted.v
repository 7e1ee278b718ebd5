(* SPDX-License-Identifier: BSD-2-Clause

   The proof's arithmetic as a program, which arithmetic.ml compares with src/core (proof/README.md).

   Z becomes the int of OCaml, of 63 bits. Nothing overflows: arithmetic.ml refuses inputs beyond the
   limits of drift_fits_64_bits, which proves that each intermediate value of the drift is below 2^62;
   and it refuses clock readings above 2^60, so a reading, a TTL and a drift together are below 2^62. *)
Require Import ZArith.
Open Scope Z_scope.
From Redlock Require Import Arithmetic Classic.
From Redlock Require Import Ints.

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
