(* SPDX-License-Identifier: BSD-2-Clause

   The arithmetic on which classic mode rests: majorities meet, and validity ends before the key.

   Times and spans are integers, in nanoseconds as in src/core. Rates are parts per million. *)
Require Import ZArith Lia List Bool.
Import ListNotations.
Open Scope Z_scope.

Definition million : Z := 1000000.
Definition ms : Z := 1000000. (* a millisecond in nanoseconds: RL_MS *)

(* ---- majorities -------------------------------------------------------------------------------- *)

(* rl_quorum() *)
Definition majority_of (nodes : nat) : nat := (nodes / 2 + 1)%nat.

Lemma majority_is_more_than_half : forall nodes, (nodes < 2 * majority_of nodes)%nat.
Proof.
  intros. unfold majority_of.
  pose proof (Nat.div_mod nodes 2). pose proof (Nat.mod_upper_bound nodes 2). lia.
Qed.

(* Two selections from one list that together are longer than the list have an element in common.
   The list may name an element twice: it is then counted twice in both. *)
Lemma selections_meet : forall (A : Type) (f g : A -> bool) (l : list A),
  (length l < length (filter f l) + length (filter g l))%nat ->
  exists x, In x l /\ f x = true /\ g x = true.
Proof.
  intros A f g. induction l as [| x l IH]; simpl; intros more; [lia |].
  destruct (f x) eqn:fx, (g x) eqn:gx; simpl in more;
    try (exists x; now auto); destruct IH as (z & ? & ? & ?); try lia; exists z; auto.
Qed.

(* ---- drift and validity ------------------------------------------------------------------------ *)

(* rl_drift() of src/core/tally.c, statement by statement. *)
Definition drift_of (ppm fixed ttl : Z) : Z :=
  let whole := ttl / million * ppm in
  let rest := (ttl mod million * ppm + million - 1) / million in
  whole + rest + fixed.

(* It rounds up: validity is rather too short than too long. *)
Lemma drift_rounds_up : forall ppm fixed ttl,
  ttl * ppm + million * fixed <= million * drift_of ppm fixed ttl < ttl * ppm + million * fixed + million.
Proof.
  intros. unfold drift_of.
  pose proof (Z.div_mod ttl million ltac:(discriminate)) as parts.
  set (whole := ttl / million) in *. set (rest := ttl mod million) in *.
  pose proof (Z.div_mod (rest * ppm + million - 1) million ltac:(discriminate)) as up.
  pose proof (Z.mod_pos_bound (rest * ppm + million - 1) million ltac:(reflexivity)).
  unfold million in *. nia.
Qed.

(* Within the limits of the library (a TTL of at most 24 hours; an allowance of at most all of it, by
   src/client/options.c and src/core/clocks.c) no intermediate
   value of the C code leaves 64 bits, so the C code computes this function: on numbers that are not
   negative the division of C is that of Coq. *)
Lemma drift_fits_64_bits : forall ppm fixed ttl,
  0 <= ttl <= 86400000 * ms -> 0 <= ppm <= 1000000 -> 0 <= fixed <= 60000 * ms ->
  0 <= ttl / million * ppm < 2 ^ 62 /\
  0 <= ttl mod million * ppm + million - 1 < 2 ^ 62 /\
  0 <= drift_of ppm fixed ttl < 2 ^ 62.
Proof.
  intros ppm fixed ttl t p f. unfold drift_of, ms in *.
  assert (0 <= ttl / million <= 86400000).
  { split; [apply Z.div_pos; unfold million; lia |].
    apply Z.div_le_upper_bound; unfold million; lia. }
  pose proof (Z.mod_pos_bound ttl million ltac:(reflexivity)).
  assert (0 <= (ttl mod million * ppm + million - 1) / million <= 1000001).
  { split; [apply Z.div_pos; unfold million in *; nia |].
    apply Z.div_le_upper_bound; unfold million in *; nia. }
  unfold million in *. nia.
Qed.

(* When the errors of the clocks are small enough for this drift allowance.

   A server's clock gains at most (1 + server_ppm) times the real time, and a reading of it is wrong
   by at most server_error (Redis counts whole milliseconds). A client's clock shows at least
   (1 - client_ppm) times the real time, less client_error. *)
Definition drift_covers (ppm fixed client_ppm server_ppm client_error server_error : Z) : Prop :=
  ppm <= million /\ client_ppm <= million /\
  (million + server_ppm) * (million - ppm) <= million * (million - client_ppm) /\
  (million - ppm) * server_error + million * client_error <= million * fixed.

(* The rule of thumb: the two rates together are at most the drift, and so are the two errors. *)
Lemma drift_covers_the_sum : forall ppm fixed client_ppm server_ppm client_error server_error,
  0 <= ppm <= million -> 0 <= server_ppm -> 0 <= client_ppm -> 0 <= server_error ->
  client_ppm + server_ppm <= ppm -> client_error + server_error <= fixed ->
  drift_covers ppm fixed client_ppm server_ppm client_error server_error.
Proof. intros. unfold drift_covers, million in *. repeat split; try lia; nia. Qed.

(* The defaults: 1 % and 2 ms. *)
Definition ppm_default : Z := 10000.
Definition fixed_default : Z := 2 * ms.

(* They cover two clocks of which each is wrong by half a per cent, and readings in whole ms. *)
Lemma defaults_cover_half_a_per_cent_each :
  drift_covers ppm_default fixed_default 5000 5000 0 ms.
Proof. repeat split; vm_compute; discriminate. Qed.

(* They do not cover two clocks of which each is wrong by one per cent, in opposite directions. *)
Lemma defaults_do_not_cover_one_per_cent_each :
  ~ drift_covers ppm_default fixed_default 10000 10000 0 0.
Proof. intros (_ & _ & rates & _). vm_compute in rates. now apply rates. Qed.

(* A clock that is slewed by 8.3 % needs more. A client that measures this subtracts 7.75 % instead. *)
Lemma defaults_do_not_cover_a_slew : ~ drift_covers ppm_default fixed_default 0 83333 0 0.
Proof. intros (_ & _ & rates & _). vm_compute in rates. now apply rates. Qed.

Lemma the_measured_allowance_covers_a_slew : drift_covers 77500 fixed_default 0 83333 0 ms.
Proof. repeat split; vm_compute; discriminate. Qed.

(* The heart of the timing argument. A client reads its clock at `at`. Later, at `set`, a server
   gives a key the TTL; at `ended` that key has lived for the TTL by the server's clock. Then the
   client's validity, counted from its reading, has ended by then as well. *)
Lemma validity_ends_first :
  forall ppm fixed client_ppm server_ppm client_error server_error ttl
         at_ set ended now (client server : Z -> Z),
  drift_covers ppm fixed client_ppm server_ppm client_error server_error ->
  million * (server ended - server set) <= (million + server_ppm) * (ended - set) + million * server_error ->
  (million - client_ppm) * (now - at_) - million * client_error <= million * (client now - client at_) ->
  at_ <= set -> set <= ended -> ended <= now ->
  client now < client at_ + ttl - drift_of ppm fixed ttl ->
  server ended - server set < ttl.
Proof.
  intros * (p & b & rates & errors) gained shown ? ? ? inside.
  destruct (Z_lt_ge_dec (server ended - server set) ttl) as [| lived]; [assumption | exfalso].
  pose proof (drift_rounds_up ppm fixed ttl) as [round _].
  set (real := ended - set) in *.
  assert (real_shown : (million - client_ppm) * real <= (million - client_ppm) * (now - at_)) by nia.
  assert (ends_late : million * ttl <= (million + server_ppm) * real + million * server_error)
    by (unfold million in *; lia).
  assert (scaled : (million - ppm) * (million * ttl) <=
                   (million - ppm) * ((million + server_ppm) * real + million * server_error))
    by (apply Z.mul_le_mono_nonneg_l; lia).
  assert (rated : (million + server_ppm) * (million - ppm) * real <= million * (million - client_ppm) * real)
    by (apply Z.mul_le_mono_nonneg_r; lia).
  assert (kept : (million - ppm) * ttl <= (million - client_ppm) * real + (million - ppm) * server_error)
    by (unfold million in *; lia).
  unfold million in *. lia.
Qed.
