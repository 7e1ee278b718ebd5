(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode: runs that Coq executes. A server loses its data and comes back, and tokens go on. What
   happens if a clock stops and no confirm round is asked for. And for each rule of guarded mode what
   happens without it. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory Guarded GuardedTokens GuardedExclusion.
Import ListNotations.
Open Scope Z_scope.

Definition second : Z := 1000 * ms.
Definition tick : Z := 20 * ms. (* a step *)
Definition A : attempt := 0%nat.
Definition B : attempt := 1%nat.

Definition same_rule (a b : rule) : bool :=
  match a, b with
  | Only_intact_vote, Only_intact_vote | Raises_strictly, Raises_strictly | Drops_superseded, Drops_superseded
  | Registers, Registers | Waits, Waits | Reads_after_the_wait, Reads_after_the_wait
  | Reads_from_a_majority, Reads_from_a_majority | Installs_incarnations, Installs_incarnations
  | Installs_fences, Installs_fences => true
  | _, _ => false
  end.

(* Three members, one lock. Body 3 is another process for member 0. Bodies 4 and 5 are the processes of
   members 1 and 0 again, without their data. *)
Definition world (a_stops : bool) (dropped : option rule) : system := {|
  members := 3;
  member_of := fun b => if (b <? 3)%nat then b else if (b =? 4)%nat then 1%nat else 0%nat;
  rank_of := fun b => if (b =? 3)%nat then 1%nat else 0%nat;
  resource_of := fun _ => 0%nat;
  stripe_of := fun _ => 0%nat;
  time_at := fun n => Z.of_nat n * tick;
  client_clock := fun c t => if a_stops && (c =? A)%nat then 0 else t;
  agent_clock := fun _ t => t;
  server_clock := fun _ t => t;
  client_ppm := 5000; server_ppm := 5000; agent_ppm := 5000; client_error := 0; server_error := ms;
  agent_error := 0;
  drift_ppm := ppm_default; drift_fixed := fixed_default;
  ttl_max := second;
  drops := fun r => match dropped with Some d => same_rule r d | None => false end;
|}.

Lemma world_is_well_formed : forall a_stops dropped, well_formed (world a_stops dropped).
Proof.
  intros a_stops dropped. constructor; cbn [world members member_of rank_of time_at].
  - intros b. destruct (Nat.ltb_spec b 3); [assumption |]. destruct (b =? 4)%nat; lia.
  - intros b small. destruct (Nat.ltb_spec b 3); [| lia]. split; [reflexivity |]. destruct (Nat.eqb_spec b 3); lia.
  - intros m n less. apply Z.mul_le_mono_nonneg_r; [vm_compute; discriminate | lia].
Qed.

Lemma world_clocks_run : forall dropped, clocks_run (world false dropped).
Proof.
  intros dropped. split; [constructor | intros since until]; unfold servers_run, client_clocks_run, agent_clocks_run, wait_covers;
    cbn [world client_clock agent_clock server_clock client_ppm agent_ppm server_ppm client_error server_error agent_error
         drift_ppm drift_fixed andb]; intros; unfold million; try lia.
  - repeat split; vm_compute; discriminate.
  - repeat split; vm_compute; discriminate.
  - unfold ms. lia.
Qed.

Lemma world_obeys : forall a_stops, obeys (world a_stops None).
Proof. intros a_stops r. reflexivity. Qed.

(* ---- the parts of the stories -------------------------------------------------------------------- *)

(* An event has its place in the story as its moment. Observations are named by their places in the log,
   newest first. *)
Local Open Scope nat_scope.

Definition empty (b : body) : event := Claims b (fun _ => 0) (fun _ => 0%Z) (fun _ => None).
Definition passes (n : nat) : list event := repeat Passes n.
Definition one_wait (from to : nat) : list wait := [{| waiter := 0; wait_from := from; wait_to := to |}].
(* 51 steps are 1.02 s: enough for 1 s and drift. *)
Definition the_wait : list event := passes 51.
Definition validity (began : nat) : Z := (Z.of_nat began * tick + second - 12 * ms)%Z.

(* Moments 0 to 5: A wins by members 0 and 1 with token 5. *)
Definition a_wins_first : list event :=
  [Begins A second; Sets 0 A 0 second; Sets 1 A 0 second; Raises 0 A 0 second 5%Z; Raises 1 A 0 second 5%Z;
   Wins A 5%Z [0; 1] None (validity 0)].

(* From the moment `began`: an attempt that wins by two bodies. *)
Definition b_wins (began : nat) (b b' : body) (t : Z) : list event :=
  [Begins B second; Sets b B began second; Sets b' B began second; Raises b B began second t;
   Raises b' B began second t; Wins B t [0; 1] None (validity began)].

(* The same with a confirm round. *)
Definition b_wins_confirmed (began : nat) (b b' : body) (t : Z) : list event :=
  [Begins B second; Sets b B began second; Sets b' B began second; Raises b B began second t;
   Raises b' B began second t; Confirms_ b B; Confirms_ b' B; Wins B t [2; 3] (Some [0; 1]) (validity began)].

(* Two attempts at once, by two bodies each. *)
Definition both_win (began : nat) (a a' b b' : body) : list event :=
  [Begins A second; Begins B second;
   Sets a A began second; Sets a' A began second; Sets b B (began + 1) second; Sets b' B (began + 1) second;
   Raises a A began second 5%Z; Raises a' A began second 5%Z;
   Raises b B (began + 1) second 6%Z; Raises b' B (began + 1) second 6%Z;
   Wins A 5%Z [2; 3] None (validity began); Wins B 6%Z [0; 1] None (validity (began + 1))].

(* Moments 0 to 57: body 3 is registered and installed, and body 0 lives on. *)
Definition second_body : list event :=
  [empty 3; Learns 1 0 1; Learns 2 0 1; Is_registered 3 [1; 2]] ++ the_wait ++
  [Reads 1; Reads 2; Installs 3 [0; 1] (one_wait 3 54)].

(* ---- a member is replaced by another process ------------------------------------------------------ *)

(* A wins. Member 0 is lost, and body 3 takes its place: registered at 1 and 2, the wait, the read, the
   install. Then body 3 and member 2, which never saw A's token, vote for B: body 3 refuses token 5 and
   grants 6. *)
Definition recovery : list event :=
  a_wins_first ++ [Dies 0; empty 3; Learns 1 0 1; Learns 2 0 1; Is_registered 3 [1; 2]] ++ the_wait ++
  [Reads 1; Reads 2; Installs 3 [0; 1] (one_wait 10 61)].

(* ---- a clock that stops --------------------------------------------------------------------------- *)

(* Member 1 votes for A with token 5. A's machine stops, and its clock with it. Member 1 is flushed and
   recovers, and B gets token 5 by it and member 2. A goes on, and gets the vote of member 0. *)
Definition flushed : list event :=
  [Begins A second; Sets 0 A 0 second; Sets 1 A 0 second; Raises 1 A 0 second 5%Z;
   Dies 1; empty 4; Is_registered 4 [0; 2]] ++ the_wait ++
  [Reads 0; Reads 2; Installs 4 [0; 1] (one_wait 6 57)] ++ b_wins_confirmed 61 4 2 5%Z ++
  [Raises 0 A 0 second 5%Z; Wins A 5%Z [0; 9] None (validity 0)].

(* ---- a rule that is dropped ----------------------------------------------------------------------- *)

Definition story (dropped : rule) : list event :=
  match dropped with
  | Only_intact_vote => (* the empty body votes at once *)
      a_wins_first ++ [Dies 0; empty 3] ++ b_wins 8 3 2 6%Z
  | Raises_strictly => (* A's key has ended; the token is given again *)
      a_wins_first ++ passes 55 ++ [Ends 1 0] ++ b_wins 62 1 2 5%Z
  | Drops_superseded => (* A counts body 0 and member 1, which knows body 3; B counts body 3 and member 2 *)
      second_body ++ both_win 58 0 1 3 2
  | Registers => (* the same, and nobody was told of body 3 *)
      [empty 3; Is_registered 3 [1; 2]] ++ the_wait ++ [Reads 1; Reads 2; Installs 3 [0; 1] (one_wait 1 52)] ++
      both_win 56 0 1 3 2
  | Waits =>
      a_wins_first ++ [Dies 0; empty 3; Learns 1 0 1; Learns 2 0 1; Is_registered 3 [1; 2];
        Reads 1; Reads 2; Installs 3 [0; 1] []] ++ b_wins 14 3 2 6%Z
  | Reads_after_the_wait => (* the fences of members 1 and 2 are read before A's vote arrives at 1 *)
      [Begins A second; Sets 0 A 0 second; Sets 1 A 0 second; Raises 0 A 0 second 5%Z;
       Dies 0; empty 5; Is_registered 5 [1; 2]; Reads 1; Reads 2;
       Raises 1 A 0 second 5%Z; Wins A 5%Z [0; 5] None (validity 0)] ++ the_wait ++
      [Installs 5 [1; 2] (one_wait 6 61)] ++ b_wins 63 5 2 5%Z
  | Reads_from_a_majority => (* nothing is read *)
      a_wins_first ++ [Dies 0; empty 3; Learns 1 0 1; Learns 2 0 1; Is_registered 3 [1; 2]] ++ the_wait ++
      [Installs 3 [] (one_wait 10 61)] ++ b_wins 63 3 2 5%Z
  | Installs_incarnations => (* member 1 comes back, and does not know that body 3 replaced body 0 *)
      second_body ++ [Dies 1; empty 4; Is_registered 4 [3; 2]] ++ the_wait ++
      [Reads 3; Reads 2; Installs 4 [0; 1] (one_wait 60 111)] ++ both_win 115 0 4 3 2
  | Installs_fences => (* body 3 starts at 0 *)
      recovery ++ b_wins 65 3 2 5%Z
  end.

Local Open Scope Z_scope.

(* ---- what became of them -------------------------------------------------------------------------- *)

Definition tokens (y : system) (events : list event) : option (list Z * bool * bool) :=
  match run y (initial y) events with
  | Some s => Some (map fencing_token (grants s), inside y s A, inside y s B)
  | None => None
  end.

Example a_server_comes_back :
  well_formed (world false None) /\ obeys (world false None) /\ clocks_run (world false None) /\
  tokens (world false None) (recovery ++ b_wins_confirmed 65%nat 3%nat 2%nat 6) = Some ([6; 5], false, true) /\
  tokens (world false None) (recovery ++ b_wins_confirmed 65%nat 3%nat 2%nat 5) = None.
Proof.
  split; [apply world_is_well_formed |]. split; [apply world_obeys |]. split; [apply world_clocks_run |].
  split; vm_compute; reflexivity.
Qed.

Definition two_hold (y : system) (s : state) : Prop :=
  exists c d x, c <> d /\ has_lock y s c x /\ has_lock y s d x.

Definition token_given_twice (y : system) (s : state) : Prop :=
  exists g g', In g (grants s) /\ In g' (grants s) /\ winner g <> winner g' /\
    resource_of y (winner g) = resource_of y (winner g') /\ fencing_token g = fencing_token g'.

Lemma inside_both : forall a_stops dropped s, inside (world a_stops dropped) s A = true ->
  inside (world a_stops dropped) s B = true -> two_hold (world a_stops dropped) s.
Proof. intros. exists A, B, 0%nat. repeat split; try assumption. discriminate. Qed.

(* A clock that stops, and no confirm round: neither tokens nor exclusion hold. *)
Theorem clocks_or_confirm : exists y, well_formed y /\ obeys y /\
  exists s, reachable y s /\ token_given_twice y s /\ two_hold y s.
Proof.
  exists (world true None). split; [apply world_is_well_formed |]. split; [apply world_obeys |].
  destruct (run (world true None) (initial (world true None)) flushed) as [s |] eqn:ran;
    [| vm_compute in ran; discriminate].
  exists s. split; [eapply run_reachable; [apply at_first | eassumption] |].
  assert (said : match run (world true None) (initial (world true None)) flushed with
    | Some s => match grants s with
                | [g; g'] => winner g = A /\ winner g' = B /\ fencing_token g = 5 /\ fencing_token g' = 5
                | _ => False
                end /\ inside (world true None) s A = true /\ inside (world true None) s B = true
    | None => False end) by (vm_compute; auto 20).
  rewrite ran in said. destruct said as (won_ & in_a & in_b).
  destruct (grants s) as [| g [| g' [|]]] eqn:is; try contradiction. destruct won_ as (a & b & five & five').
  split; [| now apply inside_both].
  exists g, g'. rewrite is. simpl. rewrite a, b, five, five'. repeat split; auto. discriminate.
Qed.

(* A story went wrong: both are inside, or both got one token. *)
Definition went_wrong (r : rule) : bool :=
  let y := world false (Some r) in
  match run y (initial y) (story r) with
  | Some s => match grants s with
              | [g'; g] => (winner g =? A)%nat && (winner g' =? B)%nat &&
                           ((inside y s A && inside y s B) || (fencing_token g =? fencing_token g'))
              | _ => false
              end
  | None => false
  end.

Lemma every_story_goes_wrong : forall r, went_wrong r = true.
Proof. destruct r; vm_compute; reflexivity. Qed.

Theorem each_rule_is_needed : forall r, exists y,
  well_formed y /\ clocks_run y /\ (forall r', r' <> r -> drops y r' = false) /\
  exists s, reachable y s /\ (two_hold y s \/ token_given_twice y s).
Proof.
  intros r. exists (world false (Some r)).
  split; [apply world_is_well_formed |]. split; [apply world_clocks_run |].
  split; [intros r' other; destruct r, r'; congruence || reflexivity |].
  pose proof (every_story_goes_wrong r) as wrong. unfold went_wrong in wrong. set (y := world false (Some r)) in *.
  destruct (run y (initial y) (story r)) as [s |] eqn:ran; [| discriminate].
  exists s. split; [eapply run_reachable; [apply at_first | eassumption] |].
  destruct (grants s) as [| g' [| g [|]]] eqn:is; try discriminate.
  rewrite !andb_true_iff, orb_true_iff, andb_true_iff, !Nat.eqb_eq, Z.eqb_eq in wrong.
  destruct wrong as ((a & b) & [[in_a in_b] | same]).
  - left. now apply inside_both.
  - right. exists g, g'. rewrite is. simpl. rewrite a, b. repeat split; auto. discriminate.
Qed.

(* ---- every step occurs -------------------------------------------------------------------------- *)

Definition kind (e : event) : nat :=
  match e with
  | Passes => 0 | Begins _ _ => 1 | Sets _ _ _ _ => 2 | Raises _ _ _ _ _ => 3 | Bumps _ _ _ => 4
  | Extends_ _ _ _ _ _ => 5 | Deletes _ _ => 6 | Ends _ _ => 7 | Confirms_ _ _ => 8 | Reads _ => 9 | Learns _ _ _ => 10
  | Renames _ => 11 | Dies _ => 12 | Claims _ _ _ _ => 13 | Is_registered _ _ => 14 | Installs _ _ _ => 15
  | Wins _ _ _ _ _ => 16 | Extended _ _ _ _ _ => 17 | Cuts _ _ => 18 | Releases _ => 19
  end%nat.

Local Open Scope nat_scope.

(* Moments 0 to 76: after the recovery B wins, extends by body 3 and member 2, and cuts its lock. *)
Definition recovers_and_extends : list event :=
  recovery ++ b_wins_confirmed 65 3 2 6%Z ++
  [Extends_ 3 B 73 second 6%Z; Extends_ 2 B 73 second 6%Z; Extended B 73 second [0; 1] (validity 73); Cuts B 0%Z].
(* An operator breaks the lock, and the keys of A and B end. *)
Definition breaks_and_ends : list event :=
  [Bumps 3 0 9%Z; Renames 3; Releases B; Deletes 3 B] ++ passes 51 ++ [Ends 1 0; Ends 2 0].

(* With all rules, and clocks that run. *)
Theorem every_step_occurs : exists y events s, well_formed y /\ obeys y /\ clocks_run y /\
  run y (initial y) events = Some s /\ all_occur kind (fun _ => false) events.
Proof.
  set (y := world false None). set (events := recovers_and_extends ++ breaks_and_ends).
  destruct (can_run_to (step y) (initial y) events) as [s ran]; [vm_compute; reflexivity |].
  exists y, events, s. split; [apply world_is_well_formed |]. split; [apply world_obeys |].
  split; [apply world_clocks_run |]. split; [assumption | all_occur].
Qed.
