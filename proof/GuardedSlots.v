(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode: K locks have at most K holders. The slots of a resource are K ordinary locks, on keys of
   their own (docs/use/slots.md). How a slot is taken is in Slots.v, for classic mode; here a client that asks for
   any slot is several attempts, one for each slot, of which all but one are over when it settles. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic GuardedHistory Guarded GuardedTokens GuardedExclusion.
Import ListNotations.

(* One lock has one holder, whatever data servers lose. So different clients that each hold one of these
   locks are at most as many as the locks. *)
Theorem guarded_at_most_K : forall y, well_formed y -> obeys y -> clocks_run y ->
  forall s, reachable y s ->
  forall slots holders, NoDup holders ->
  (forall c, In c holders -> exists x, In x slots /\ has_lock y s c x) ->
  (length holders <= length slots)%nat.
Proof.
  intros y well rules clocks s reached slots holders. revert slots.
  induction holders as [| c holders IH]; intros slots one each; [simpl; lia |].
  inversion one as [| ? ? not_in one']; subst.
  destruct (each c (or_introl eq_refl)) as (x & x_in & has).
  destruct (in_split x slots x_in) as (before_ & after_ & ->).
  rewrite app_length. simpl.
  assert (rest : (length holders <= length (before_ ++ after_))%nat); [| rewrite app_length in rest; lia].
  apply IH; [assumption |]. intros d d_in. destruct (each d (or_intror d_in)) as (z & z_in & has_d).
  exists z. split; [| assumption]. rewrite in_app_iff in *. simpl in z_in. destruct z_in as [? | [<- | ?]]; auto.
  exfalso. apply not_in. now rewrite (guarded_exclusion y well rules clocks s reached c d x has has_d).
Qed.
