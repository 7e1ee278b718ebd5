(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode: runs that Coq executes. A server loses its data and comes back, and tokens go on. And
   what happens if a clock stops and no confirm round is asked for: the theorems need one of the two. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic GuardedHistory Guarded GuardedTokens GuardedExclusion.
Import ListNotations.
Open Scope Z_scope.

Definition second : Z := 1000 * ms.
Definition A : attempt := 0%nat.
Definition B : attempt := 1%nat.

(* Three members, one lock, a step each 90 ms. Body 3 is another process for member 0; body 4 is the
   process of member 1 again, without its data. *)
Definition world (a_stops : bool) : system := {|
  members := 3;
  member_of := fun b => if (b <? 3)%nat then b else if (b =? 4)%nat then 1%nat else 0%nat;
  rank_of := fun b => if (b =? 3)%nat then 1%nat else 0%nat;
  resource_of := fun _ => 0%nat;
  stripe_of := fun _ => 0%nat;
  time_at := fun n => Z.of_nat n * (90 * ms);
  client_clock := fun c t => if a_stops && (c =? A)%nat then 0 else t;
  agent_clock := fun _ t => t;
  server_clock := fun _ t => t;
  client_ppm := 5000; server_ppm := 5000; agent_ppm := 5000; client_error := 0; server_error := ms;
  drift_ppm := ppm_default; drift_fixed := fixed_default;
  ttl_max := second;
|}.

Lemma world_is_well_formed : forall a_stops, well_formed (world a_stops).
Proof.
  intros a_stops. constructor; cbn [world members member_of rank_of time_at].
  - intros b. destruct (Nat.ltb_spec b 3); [assumption |]. destruct (b =? 4)%nat; lia.
  - intros b small. destruct (Nat.ltb_spec b 3); [| lia]. split; [reflexivity |]. destruct (Nat.eqb_spec b 3); lia.
  - intros m n less. apply Z.mul_le_mono_nonneg_r; [vm_compute; discriminate | lia].
Qed.

Lemma world_clocks_run : clocks_run (world false).
Proof.
  constructor; unfold client_clocks_run, agent_clocks_run, wait_covers;
    cbn [world client_clock agent_clock server_clock client_ppm agent_ppm server_ppm client_error server_error
         drift_ppm drift_fixed andb]; intros; unfold million; try lia.
  - unfold ms. lia.
  - repeat split; vm_compute; discriminate.
  - repeat split; vm_compute; discriminate.
Qed.

Fixpoint run (y : system) (s : state) (events : list event) : option state :=
  match events with
  | [] => Some s
  | e :: events => match step y s e with Some s' => run y s' events | None => None end
  end.

Lemma run_reachable : forall y events s s', reachable y s -> run y s events = Some s' -> reachable y s'.
Proof.
  induction events as [| e events IH]; cbn [run]; intros s s' reached ran; [congruence |].
  destruct (step y s e) eqn:happens; [| discriminate]. eauto using and_then.
Qed.

Definition nothing_known : node -> rank := fun _ => 0%nat.
Definition no_fences : stripe -> Z := fun _ => 0.
Definition no_keys : resource -> option key := fun _ => None.
Definition passes (n : nat) : list event := repeat Passes n.

(* ---- a member is replaced by another process ---------------------------------------------------- *)

(* A wins by members 0 and 1 with token 5. Member 0 is lost, and body 3 takes its place: registered at
   1 and 2, the wait, the read, the install. Then body 3 and member 2, which never saw A's token, vote
   for B: body 3 refuses 5 and grants 6. *)
Local Open Scope nat_scope.

Definition recovery : list event :=
  [Begins A second; Sets 0 A 0 second; Sets 1 A 0 second; Raises 0 A 0 second 5%Z; Raises 1 A 0 second 5%Z;
   Wins A 5%Z [0; 1] None (second - 12 * ms)%Z;
   Dies 0; Claims 3 nothing_known no_fences no_keys; Learns 1 0 1; Learns 2 0 1; Is_registered 3 [1; 2]] ++
  passes 12 ++
  [Reads 1; Reads 2; Installs 3 [0; 1] [{| waiter := 0; wait_from := 10; wait_to := 22 |}];
   Begins B second; Sets 3 B 26 second; Sets 2 B 26 second].

Definition b_wins : list event :=
  [Raises 3 B 26 second 6%Z; Raises 2 B 26 second 6%Z; Confirms_ 3 B; Confirms_ 2 B;
   Wins B 6%Z [2; 3] (Some [0; 1]) (Z.of_nat 26 * (90 * ms) + second - 12 * ms)%Z].

Local Open Scope Z_scope.

Definition tokens (y : system) (events : list event) : option (list Z * bool * bool) :=
  match run y (initial y) events with
  | Some s => Some (map fencing_token (grants s), inside y s A, inside y s B)
  | None => None
  end.

Example a_server_comes_back :
  well_formed (world false) /\ clocks_run (world false) /\
  tokens (world false) (recovery ++ b_wins) = Some ([6; 5], false, true) /\
  run (world false) (initial (world false)) (recovery ++ [Raises 3%nat B 26%nat second 5]) = None.
Proof.
  split; [apply world_is_well_formed |]. split; [apply world_clocks_run |]. split; vm_compute; reflexivity.
Qed.

(* ---- a clock that stops -------------------------------------------------------------------------- *)

(* Member 1 votes for A with token 5. A's machine stops, and its clock with it. Member 1 is flushed and
   recovers, and B gets token 5 by it and member 2. A goes on, and gets the vote of member 0. *)
Local Open Scope nat_scope.

Definition flushed : list event :=
  [Begins A second; Sets 0 A 0 second; Sets 1 A 0 second; Raises 1 A 0 second 5%Z;
   Dies 1; Claims 4 nothing_known no_fences no_keys; Is_registered 4 [0; 2]] ++
  passes 12 ++
  [Reads 0; Reads 2; Installs 4 [0; 1] [{| waiter := 0; wait_from := 6; wait_to := 18 |}];
   Begins B second; Sets 4 B 22 second; Sets 2 B 22 second; Raises 4 B 22 second 5%Z; Raises 2 B 22 second 5%Z;
   Confirms_ 4 B; Confirms_ 2 B; Wins B 5%Z [2; 3] (Some [0; 1]) (Z.of_nat 22 * (90 * ms) + second - 12 * ms)%Z;
   Raises 0 A 0 second 5%Z].

(* The log, newest first: A's vote at 0; two confirmations and two votes for B; two reads; two
   registrations; and A's vote at 1. *)
Definition a_wins : list event := [Wins A 5%Z [0; 9] None (second - 12 * ms)%Z].

Local Open Scope Z_scope.

Example without_clocks_or_confirm :
  tokens (world true) (flushed ++ a_wins) = Some ([5; 5], true, true).
Proof. vm_compute. reflexivity. Qed.

(* So the premise of the theorems about tokens, and that of exclusion, cannot be dropped. *)
Theorem clocks_or_confirm : exists y, well_formed y /\ exists s, reachable y s /\
  (exists g g', In g (grants s) /\ In g' (grants s) /\ is_sure y g' /\
     stripe_for y (winner g) = stripe_for y (winner g') /\
     fencing_token g = fencing_token g' /\ winner g <> winner g') /\
  (exists c d x, c <> d /\ has_lock y s c x /\ has_lock y s d x).
Proof.
  exists (world true). split; [apply world_is_well_formed |].
  destruct (run (world true) (initial (world true)) (flushed ++ a_wins)) as [s |] eqn:ran; [| vm_compute in ran; discriminate].
  exists s. split; [eapply run_reachable; [apply at_first | eassumption] |].
  assert (said : match run (world true) (initial (world true)) (flushed ++ a_wins) with
    | Some s => match grants s with
                | [g; g'] => winner g = A /\ winner g' = B /\ fencing_token g = 5 /\ fencing_token g' = 5 /\
                             match confirmed_by g' with Some _ => True | None => False end
                | _ => False
                end /\ inside (world true) s A = true /\ inside (world true) s B = true
    | None => False end) by (vm_compute; auto 20).
  rewrite ran in said. destruct said as (won_ & in_a & in_b).
  destruct (grants s) as [| g [| g' [|]]] eqn:is; try contradiction.
  destruct won_ as (a & b & five & five' & confirmed). split.
  - exists g, g'. split; [simpl; auto |]. split; [simpl; auto |].
    split; [left; destruct (confirmed_by g'); [discriminate | contradiction] |].
    split; [reflexivity |]. split; [congruence |]. rewrite a, b. discriminate.
  - exists A, B, 0%nat. repeat split; try assumption. discriminate.
Qed.
