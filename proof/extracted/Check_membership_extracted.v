(* SPDX-License-Identifier: BSD-2-Clause

   The checker of membership traces as a program; check_membership.ml reads the traces for it (proof/README.md).

   Z becomes the int of OCaml, as in Check_extracted.v: traces.ml refuses numbers of 2^61 and more. *)
Require Import ZArith.
From Redlock Require Import Arithmetic Runs ClassicTraces Membership MembershipTraces.
From Redlock Require Import Ints.

(* Names of both systems without those of OCaml. *)
Definition shown_of (o : Membership.seen) : record := Membership.shown o.
Definition now_of (b : both) : nat := MembershipLocks.now (MembershipRevisions.locks (settles b)).
Definition too (e : MembershipLocks.event) : fact := Settles (MembershipRevisions.Does e).
Definition passes : fact := too MembershipLocks.Passes.
Definition reads_too (n : node) : fact := too (MembershipLocks.Reads n).
Definition loses_too (n : node) : fact := too (MembershipLocks.Loses n (fun _ => None) (fun _ => 0%Z)).
Definition installs_too (n : node) (places : list nat) (w : MembershipLocks.wait) : fact := too (MembershipLocks.Installs n places w).
Definition decides_too (l held : list node) : fact := too (MembershipLocks.Decides l held).
Definition switches_too (n : node) (e : nat) : fact := too (MembershipLocks.Switches n e).

Extraction "proved.ml" system_of locks_of initially check check_one same_change same_list is_unchanged place_of among
  shown_of now_of passes reads_too loses_too installs_too decides_too switches_too.
