(* SPDX-License-Identifier: BSD-2-Clause

   Classic mode: a checker of traces, and that what it accepts is a run of the proved system.

   A trace says what happened in one run of the code: which requests were sent, what servers did with
   them, and until when clients were told that they hold a lock. The checker looks for a run of
   Classic.v that explains it. It computes with `step` itself, so there is no second copy of the rules. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs Classic.
Import ListNotations.
Open Scope Z_scope.

(* ---- clocks ------------------------------------------------------------------------------------ *)

(* From the real time `from` on the clock shows `shown` and runs at `rate` parts per million. *)
Record segment := { from : time; shown : time; rate : Z }.

(* Split as in sim/world/clock.h, so that no product is large. *)
Definition run_of (g : segment) (t : time) : Z :=
  (t - from g) / million * rate g + (t - from g) mod million * rate g / million.
Definition segment_at (g : segment) (t : time) : time := shown g + run_of g t.

(* The latest segment comes first; the earliest one also holds before its beginning. *)
Fixpoint clock_at (clock : list segment) (t : time) : time :=
  match clock with
  | [] => t
  | [g] => segment_at g t
  | g :: older => if from g <=? t then segment_at g t else clock_at older t
  end.

Fixpoint is_steady (least most : Z) (clock : list segment) : bool :=
  match clock with
  | [] => false
  | [g] => (least <=? rate g) && (rate g <=? most)
  | g :: older => (least <=? rate g) && (rate g <=? most) && (shown g =? clock_at older (from g)) &&
                  is_steady least most older
  end.

Lemma run_bounds : forall g t, (t - from g) * rate g - million < million * run_of g t <= (t - from g) * rate g.
Proof.
  intros. unfold run_of. set (d := t - from g).
  pose proof (Z.div_mod d million ltac:(discriminate)) as parts.
  set (whole := d / million) in *. set (rest := d mod million) in *.
  pose proof (Z.div_mod (rest * rate g) million ltac:(discriminate)) as low.
  pose proof (Z.mod_pos_bound (rest * rate g) million ltac:(reflexivity)).
  rewrite parts. unfold million in *. nia.
Qed.

Lemma run_of_start : forall g, run_of g (from g) = 0.
Proof. intros. unfold run_of. now rewrite Z.sub_diag. Qed.

Lemma one_segment : forall least most g t t', least <= rate g -> rate g <= most -> t <= t' ->
  least * (t' - t) - million <= million * (segment_at g t' - segment_at g t) <= most * (t' - t) + million.
Proof.
  intros. unfold segment_at. pose proof (run_bounds g t). pose proof (run_bounds g t').
  replace (shown g + run_of g t' - (shown g + run_of g t)) with (run_of g t' - run_of g t) by lia.
  assert (least * (t' - t) <= rate g * (t' - t)) by nia.
  assert (rate g * (t' - t) <= most * (t' - t)) by nia. nia.
Qed.

Lemma steady_runs : forall least most clock, is_steady least most clock = true -> forall t t', t <= t' ->
  least * (t' - t) - million * Z.of_nat (length clock) <= million * (clock_at clock t' - clock_at clock t)
  <= most * (t' - t) + million * Z.of_nat (length clock).
Proof.
  intros least most. induction clock as [| g older IH]; [discriminate |]. intros steady t t' order.
  destruct older as [| h older].
  - cbn [is_steady] in steady. apply andb_true_iff in steady as [low high].
    cbn [clock_at length]. pose proof (one_segment least most g t t'). lia.
  - set (rest := h :: older) in *.
    assert (parts : least <= rate g /\ rate g <= most /\ shown g = clock_at rest (from g) /\
                    is_steady least most rest = true).
    { subst rest. cbn [is_steady] in steady |- *. rewrite !andb_true_iff in steady.
      rewrite !Z.leb_le, Z.eqb_eq in steady. tauto. }
    destruct parts as (low & high & joint & steady').
    assert (at_g : forall u, clock_at (g :: rest) u = if from g <=? u then segment_at g u else clock_at rest u)
      by reflexivity.
    rewrite !at_g. replace (Z.of_nat (length (g :: rest))) with (1 + Z.of_nat (length rest)) by (cbn [length]; lia).
    destruct (from g <=? t) eqn:before; destruct (from g <=? t') eqn:before'; try lia.
    + pose proof (one_segment least most g t t' low high order). unfold million in *. lia.
    + specialize (IH steady' t (from g) ltac:(lia)).
      pose proof (one_segment least most g (from g) t' low high ltac:(lia)) as last.
      assert (start : segment_at g (from g) = clock_at rest (from g))
        by (unfold segment_at; rewrite run_of_start; lia).
      rewrite start in last. unfold million in *. lia.
    + specialize (IH steady' t t' order). unfold million in *. lia.
Qed.

(* A server's clock may be set back: keys only end later. *)
Fixpoint is_not_quick (most : Z) (clock : list segment) : bool :=
  match clock with
  | [] => false
  | [g] => (0 <=? rate g) && (rate g <=? most)
  | g :: older => (0 <=? rate g) && (rate g <=? most) && (shown g <=? clock_at older (from g)) && is_not_quick most older
  end.

Lemma not_quick_runs : forall most clock, is_not_quick most clock = true -> forall t t', t <= t' ->
  million * (clock_at clock t' - clock_at clock t) <= most * (t' - t) + million * Z.of_nat (length clock).
Proof.
  intros most. induction clock as [| g older IH]; [discriminate |]. intros not_quick t t' order.
  destruct older as [| h older].
  - cbn [is_not_quick] in not_quick. apply andb_true_iff in not_quick as [low high].
    cbn [clock_at length]. pose proof (one_segment 0 most g t t'). lia.
  - set (rest := h :: older) in *.
    assert (parts : 0 <= rate g /\ rate g <= most /\ shown g <= clock_at rest (from g) /\ is_not_quick most rest = true).
    { subst rest. cbn [is_not_quick] in not_quick |- *. rewrite !andb_true_iff, !Z.leb_le in not_quick. tauto. }
    destruct parts as (low & high & joint & not_quick').
    assert (at_g : forall u, clock_at (g :: rest) u = if from g <=? u then segment_at g u else clock_at rest u)
      by reflexivity.
    rewrite !at_g. replace (Z.of_nat (length (g :: rest))) with (1 + Z.of_nat (length rest)) by (cbn [length]; lia).
    destruct (from g <=? t) eqn:before; destruct (from g <=? t') eqn:before'; try lia.
    + pose proof (one_segment 0 most g t t' low high order). unfold million in *. lia.
    + specialize (IH not_quick' t (from g) ltac:(lia)).
      pose proof (one_segment 0 most g (from g) t' low high ltac:(lia)) as last.
      assert (start : segment_at g (from g) = shown g) by (unfold segment_at; rewrite run_of_start; lia).
      rewrite start in last. unfold million in *. lia.
    + specialize (IH not_quick' t t' order). unfold million in *. lia.
Qed.

(* A server counts whole milliseconds. *)
Definition whole_ms (t : time) : time := t / ms * ms.

Lemma whole_ms_bounds : forall t, t - ms < whole_ms t <= t.
Proof.
  intros. unfold whole_ms. pose proof (Z.div_mod t ms ltac:(discriminate)).
  pose proof (Z.mod_pos_bound t ms ltac:(reflexivity)). lia.
Qed.

(* ---- the world of a trace ---------------------------------------------------------------------- *)

(* What a trace says at its beginning, and who makes which attempt. *)
Record world := {
  nodes_of : list (list node);             (* by client: its configured nodes *)
  client_clocks : list (list segment);     (* by client *)
  server_clocks : list (list segment);     (* by server *)
  resources : nat;                         (* they are 0, 1, ... *)
  attempts : list (attempt * (nat * list resource)); (* by whom, and for what *)
  slow_ppm : Z; fast_ppm : Z;              (* how slow clients' clocks are, how fast those of servers *)
  ppm : Z; fixed : Z;                      (* the drift allowance of the clients *)
}.

Fixpoint find {A : Type} (l : list (nat * A)) (i : nat) : option A :=
  match l with [] => None | (j, a) :: l => if (i =? j)%nat then Some a else find l i end.

Definition client_of (w : world) (c : attempt) : nat :=
  match find (attempts w) c with Some (k, _) => k | None => O end.
Definition wanted (w : world) (c : attempt) : list resource :=
  match find (attempts w) c with Some (_, l) => l | None => [] end.
Definition true_clock : list segment := [{| from := 0; shown := 0; rate := million |}].

Definition segments_max (clocks : list (list segment)) : nat := fold_right (fun l n => Nat.max (length l) n) 1%nat clocks.

Definition system_of (w : world) : system :=
  {| list_of := fun c => nth (client_of w c) (nodes_of w) (hd [] (nodes_of w));
     reaches := Nat.eqb; resources_of := wanted w; token_of := fun c => c;
     client_clock := fun c => clock_at (nth (client_of w c) (client_clocks w) true_clock);
     server_clock := fun m t => whole_ms (clock_at (nth m (server_clocks w) true_clock) t);
     client_ppm := slow_ppm w; server_ppm := fun _ => fast_ppm w;
     client_error := Z.of_nat (segments_max (client_clocks w));
     server_error := ms + Z.of_nat (segments_max (server_clocks w));
     drift_ppm := fun _ => ppm w; drift_fixed := fixed w; steady := fun _ _ => true; quorum := majority_of;
     keeps_data := true; sets_if_absent := true; extend_compares := true; extend_never_shortens := true;
     delete_compares := true; counts_own_round := true; reads_clock_first := true; release_ends := true |}.

Fixpoint same_list (a b : list nat) : bool :=
  match a, b with
  | [], [] => true
  | x :: a, y :: b => (x =? y)%nat && same_list a b
  | _, _ => false
  end.

(* The clocks of these worlds do with the configured allowance. *)
Definition drift_covers_b (w : world) : bool :=
  let y := system_of w in
  (ppm w <=? million) && (client_ppm y <=? million) &&
  ((million + fast_ppm w) * (million - ppm w) <=? million * (million - client_ppm y)) &&
  ((million - ppm w) * server_error y + million * client_error y <=? million * drift_fixed y).

(* No clock of a server of this world is faster than twice the real time. *)
Definition is_sound (w : world) : bool :=
  forallb (same_list (hd [] (nodes_of w))) (nodes_of w) &&
  forallb (is_steady (million - slow_ppm w) (2 * million)) (client_clocks w) &&
  forallb (is_not_quick (million + fast_ppm w)) (server_clocks w) &&
  (0 <=? slow_ppm w) && (slow_ppm w <=? million) && (0 <=? fast_ppm w) && (fast_ppm w <=? million) &&
  forallb (fun a => forallb (fun x => (x <? resources w)%nat) (snd (snd a))) (attempts w) &&
  drift_covers_b w.

Lemma same_list_eq : forall a b, same_list a b = true -> a = b.
Proof.
  induction a as [| x a IH]; intros [| z b] same; try discriminate; [reflexivity |].
  cbn in same. apply andb_true_iff in same as [head tail]. apply Nat.eqb_eq in head. subst. f_equal. auto.
Qed.

Lemma segments_at_most : forall clocks i, (length (nth i clocks true_clock) <= segments_max clocks)%nat.
Proof.
  induction clocks as [| l clocks IH]; intros [| i]; cbn; [lia | lia | lia |].
  specialize (IH i). unfold segments_max in IH. lia.
Qed.

Lemma is_steady_nth : forall least most clocks i, forallb (is_steady least most) clocks = true ->
  least <= million <= most -> is_steady least most (nth i clocks true_clock) = true.
Proof.
  intros least most clocks i all bounds.
  destruct (Nat.lt_ge_cases i (length clocks)) as [inside | outside].
  - rewrite forallb_forall in all. apply all. now apply nth_In.
  - rewrite nth_overflow by assumption. cbn. apply andb_true_iff. rewrite !Z.leb_le. lia.
Qed.

Lemma is_not_quick_nth : forall most clocks i, forallb (is_not_quick most) clocks = true ->
  million <= most -> is_not_quick most (nth i clocks true_clock) = true.
Proof.
  intros most clocks i all bounds.
  destruct (Nat.lt_ge_cases i (length clocks)) as [inside | outside].
  - rewrite forallb_forall in all. apply all. now apply nth_In.
  - rewrite nth_overflow by assumption. now apply Z.leb_le.
Qed.

Lemma sound_worlds_are_sound : forall w, is_sound w = true -> forall a, holds a (system_of w).
Proof.
  intros w ok. unfold is_sound in ok. rewrite !andb_true_iff in ok.
  destruct ok as ((((((((lists & clients) & servers) & slow0) & slow1) & fast0) & fast1) & _) & covers).
  rewrite Z.leb_le in slow0, slow1, fast0, fast1.
  assert (list_is : forall c, list_of (system_of w) c = hd [] (nodes_of w)).
  { intros c. cbn. destruct (nth_in_or_default (client_of w c) (nodes_of w) (hd [] (nodes_of w))) as [among | ->];
      [| reflexivity].
    rewrite forallb_forall in lists. symmetry. apply same_list_eq. auto. }
  intros []; try reflexivity; cbn [holds].
  - intros n m m'. cbn. rewrite !Nat.eqb_eq. congruence.
  - intros m t t' order. cbn [server_clock server_ppm server_error system_of].
    pose proof (not_quick_runs (million + fast_ppm w) (nth m (server_clocks w) true_clock)
      ltac:(apply is_not_quick_nth; [assumption | lia]) t t' order) as runs.
    pose proof (segments_at_most (server_clocks w) m).
    pose proof (whole_ms_bounds (clock_at (nth m (server_clocks w) true_clock) t)).
    pose proof (whole_ms_bounds (clock_at (nth m (server_clocks w) true_clock) t')).
    unfold million in *. lia.
  - intros c d. now rewrite !list_is.
  - intros c t t' order. cbn [client_clock client_ppm client_error system_of].
    pose proof (steady_runs (million - slow_ppm w) (2 * million) (nth (client_of w c) (client_clocks w) true_clock)
      ltac:(apply is_steady_nth; [assumption | unfold million in *; lia]) t t' order) as [runs _].
    pose proof (segments_at_most (client_clocks w) (client_of w c)).
    unfold million in *. lia.
  - intros c n m _ _. unfold drift_covers_b in covers. cbv zeta in covers. rewrite !andb_true_iff, !Z.leb_le in covers.
    unfold drift_covers. cbn [drift_ppm server_ppm system_of]. tauto.
  - apply majority_is_more_than_half.
  - intros c d same. exact same.
Qed.

(* ---- states that can be computed with ---------------------------------------------------------- *)

(* In Classic.v a state is made of functions, which grow with each step. Here they are tables. *)
Record table := {
  t_now : time;
  t_keys : list (list (option key)); (* by server, by resource *)
  t_phases : list (attempt * phase); (* the latest entry of an attempt counts *)
  t_sent : list request;
  t_votes : list vote;
  t_got : list vote; (* those of them that clients have received *)
  t_broken : list attempt; (* an operator broke their locks *)
}.

Definition as_state (t : table) : state :=
  {| now := t_now t;
     keys := fun m x => nth x (nth m (t_keys t) []) None;
     phase_of := fun c => match find (t_phases t) c with Some p => p | None => Idle end;
     sent := t_sent t; votes := t_votes t |}.

Fixpoint replace {A : Type} (l : list (list A)) (i : nat) (a : list A) : list (list A) :=
  match l, i with
  | [], O => [a]
  | [], S i => [] :: replace [] i a
  | _ :: l, O => a :: l
  | b :: l, S i => b :: replace l i a
  end.
Fixpoint without {A : Type} (l : list (nat * A)) (i : nat) : list (nat * A) :=
  match l with [] => [] | (j, a) :: l => if (i =? j)%nat then l else (j, a) :: without l i end.

(* What an event changes. *)
Definition server_in (e : event) : option server :=
  match e with Arrives _ m _ | Ends m _ | Loses m _ => Some m | _ => None end.
Definition attempt_in (e : event) : option attempt :=
  match e with
  | Begins c _ | Wins c _ | Begins_extension c _ | Extended c _ _ _ | Repairs c _ | Cuts c _ | Releases c => Some c
  | _ => None
  end.

(* The tables of a state that came from `t` by this event. *)
Definition tabulate (w : world) (t : table) (e : event) (s : state) : table :=
  {| t_now := now s;
     t_keys := match server_in e with
               | Some m => replace (t_keys t) m (map (keys s m) (seq 0 (resources w)))
               | None => t_keys t
               end;
     t_phases := match attempt_in e with
                 | Some c => (c, phase_of s c) :: without (t_phases t) c
                 | None => t_phases t
                 end;
     t_sent := sent s; t_votes := votes s; t_got := t_got t; t_broken := t_broken t |}.

Definition table_step (w : world) (t : table) (e : event) : option table :=
  match step (system_of w) (as_state t) e with
  | Some s => Some (tabulate w t e s)
  | None => None
  end.

Definition first_table : table := {| t_now := 0; t_keys := []; t_phases := []; t_sent := []; t_votes := []; t_got := []; t_broken := [] |}.

(* The same state, whatever the functions are made of. *)
Record alike (s t : state) : Prop := {
  same_now : now s = now t;
  same_keys : forall m x, keys s m x = keys t m x;
  same_phases : forall c, phase_of s c = phase_of t c;
  same_sent : sent s = sent t;
  same_votes : votes s = votes t;
}.

Lemma forallb_alike : forall (f g : nat -> bool) l, (forall x, f x = g x) -> forallb f l = forallb g l.
Proof. induction l as [| x l IH]; intros same; cbn; [reflexivity |]. now rewrite same, IH. Qed.

Lemma serve_alike : forall y clock r f g, (forall x, f x = g x) ->
  snd (serve y clock r f) = snd (serve y clock r g) /\ forall x, fst (serve y clock r f) x = fst (serve y clock r g) x.
Proof.
  intros y clock r f g same. unfold serve. destruct (what r).
  - rewrite (forallb_alike (fun x => is_absent (f x)) (fun x => is_absent (g x))) by (intros; now rewrite same).
    destruct (_ || _); cbn; [split; [reflexivity |] | now split]. intros x. now rewrite same.
  - rewrite (forallb_alike
      (fun x => if extend_compares y then is_owned (token_of y (by_ r)) (f x) else negb (is_absent (f x)))
      (fun x => if extend_compares y then is_owned (token_of y (by_ r)) (g x) else negb (is_absent (g x))))
      by (intros; now rewrite same).
    destruct (forallb _ _); cbn; [split; [reflexivity |] | now split]. intros x. now rewrite same.
  - cbn. split; [reflexivity |]. intros x. now rewrite same.
Qed.

Lemma update_alike : forall A (f g : nat -> A) i a b j, f j = g j -> a = b -> update f i a j = update g i b j.
Proof. intros. unfold update. destruct (_ =? _)%nat; congruence. Qed.

(* Alike states take the same steps. *)
Lemma step_alike : forall y s t e s', alike s t -> step y s e = Some s' ->
  exists t', step y t e = Some t' /\ alike s' t'.
Proof.
  intros y s t e s' both happens. pose proof both as [at_ held phases requests given].
  assert (majority_same : forall r, majority y t r = majority y s r)
    by (intros; unfold majority, voters; now rewrite given).
  assert (end_same : forall r, validity_end y t r = validity_end y s r)
    by (intros; unfold validity_end; now rewrite at_).
  assert (with_phase_alike : forall c p, alike (with_phase s c p) (with_phase t c p)).
  { intros. constructor; cbn; auto. intros. now apply update_alike. }
  assert (with_sent_alike : forall a b r, alike a b -> alike (with_sent a r) (with_sent b r)).
  { intros a b r []. constructor; cbn; auto. congruence. }
  destruct e; cbn [step] in happens |- *; try rewrite <- phases; try rewrite <- at_; try rewrite majority_same;
    try rewrite end_same.
  - destruct (0 <=? span); inversion happens; subst. eexists. split; [reflexivity |]. constructor; cbn; congruence || auto.
  - destruct (phase_of s c); inversion happens; subst. eexists. split; [reflexivity |].
    auto.
  - rewrite <- requests. destruct (reaches y n m && _); [| discriminate].
    destruct (serve_alike y (server_clock y m (now s)) r (keys s m) (keys t m) (held m)) as [same_grant same_held].
    destruct (serve y (server_clock y m (now s)) r (keys s m)) as [f granted].
    destruct (serve y (server_clock y m (now s)) r (keys t m)) as [g granted'].
    cbn in same_grant, same_held. subst granted'. inversion happens; subst; clear happens.
    eexists. split; [reflexivity |].
    assert (held_alike : forall m' x, update (keys s) m f m' x = update (keys t) m g m' x).
    { intros. unfold update. destruct (_ =? _)%nat; auto. }
    destruct granted; constructor; cbn; auto; congruence.
  - rewrite <- held. destruct (keys s m x) as [k |]; [| discriminate].
    destruct (ends k <=? _); inversion happens; subst. eexists. split; [reflexivity |].
    constructor; cbn; auto. intros. unfold update. destruct (_ =? _)%nat; [| auto]. now destruct (_ =? _)%nat.
  - destruct (keeps_data y); inversion happens; subst. eexists. split; [reflexivity |].
    constructor; cbn; auto. intros. unfold update. destruct (_ =? _)%nat; [| auto]. now destruct (_ =? _)%nat.
  - destruct (phase_of s c) as [| t0 ttl0 | |]; try discriminate.
    rewrite majority_same, end_same. destruct (majority _ _ _ && _); inversion happens; subst. eauto.
  - destruct (phase_of s c); inversion happens; subst; eauto.
  - destruct (phase_of s c) as [| | old |]; try discriminate.
    destruct (_ && _ && _ && _); inversion happens; subst. eauto.
  - destruct (phase_of s c); inversion happens; subst; eauto.
  - destruct (phase_of s c) as [| | old |]; try discriminate.
    destruct (until <=? old); inversion happens; subst. eauto.
  - inversion happens; subst. eexists. split; [reflexivity |]. destruct (release_ends y); [auto |].
    apply with_sent_alike. now constructor.
Qed.

(* ---- the tables are those of a run ------------------------------------------------------------- *)

Lemma replaced : forall A (l : list (list A)) i a, nth i (replace l i a) [] = a.
Proof. induction l as [| b l IH]; intros [| i] a; cbn; auto. induction i; cbn; auto. Qed.

Lemma not_replaced : forall A (l : list (list A)) i j a, j <> i -> nth j (replace l i a) [] = nth j l [].
Proof.
  induction l as [| b l IH]; intros i; [| destruct i; intros [| j] a other; cbn; auto; congruence].
  induction i as [| i IHi]; intros [| j] a other; cbn; try congruence; [now destruct j |].
  rewrite IHi by congruence. now destruct j.
Qed.

Lemma find_without : forall A (l : list (nat * A)) i j, j <> i -> find (without l i) j = find l j.
Proof.
  induction l as [| [k a] l IH]; intros i j other; [reflexivity |]. cbn.
  destruct (Nat.eqb_spec i k) as [-> |].
  - destruct (Nat.eqb_spec j k); [congruence | reflexivity].
  - cbn. destruct (j =? k)%nat; auto.
Qed.

Lemma nth_tabulated : forall A (f : nat -> option A) n x, (x < n)%nat -> nth x (map f (seq 0 n)) None = f x.
Proof.
  intros A f n x below. rewrite nth_indep with (d' := f O) by now rewrite map_length, seq_length.
  rewrite map_nth. now rewrite seq_nth.
Qed.

Lemma nth_beyond : forall A (f : nat -> option A) n x, (n <= x)%nat -> nth x (map f (seq 0 n)) None = None.
Proof. intros. apply nth_overflow. now rewrite map_length, seq_length. Qed.

(* No key has a name beyond the table. *)
Definition fits (w : world) (s : state) : Prop := forall m x, (resources w <= x)%nat -> keys s m x = None.

Lemma wanted_fit : forall w c x, is_sound w = true -> among (wanted w c) x = true -> (x < resources w)%nat.
Proof.
  intros w c x ok wants. apply among_in in wants. unfold wanted in wants.
  destruct (find (attempts w) c) as [[k l] |] eqn:found; [| contradiction].
  unfold is_sound in ok. rewrite !andb_true_iff in ok. destruct ok as [[_ all] _].
  rewrite forallb_forall in all.
  assert (listed : exists i, In (i, (k, l)) (attempts w)).
  { clear all wants. induction (attempts w) as [| [i a] rest IH]; [discriminate |]. cbn in found.
    destruct (c =? i)%nat; [inversion found; subst; exists i; now left |].
    destruct (IH found) as [j ?]. exists j. now right. }
  destruct listed as [i listed]. specialize (all _ listed). cbn in all. rewrite forallb_forall in all.
  specialize (all x wants). now apply Nat.ltb_lt.
Qed.

Lemma serve_fits : forall w clock r held x, is_sound w = true -> (resources w <= x)%nat -> held x = None ->
  fst (serve (system_of w) clock r held) x = None.
Proof.
  intros w clock r held x ok beyond empty. unfold serve.
  assert (among (resources_of (system_of w) (by_ r)) x = false) as not_wanted.
  { destruct (among _ x) eqn:wants; [| reflexivity]. cbn in wants. apply wanted_fit in wants; [lia | assumption]. }
  destruct (what r).
  - destruct (_ || _); cbn [fst]; [now rewrite not_wanted | assumption].
  - destruct (forallb _ _); cbn [fst]; [now rewrite empty | assumption].
  - cbn [fst]. now rewrite not_wanted.
Qed.

Lemma step_fits : forall w s e s', is_sound w = true -> fits w s -> step (system_of w) s e = Some s' -> fits w s'.
Proof.
  intros w s e s' ok fit happens m' x' beyond. pose proof (fit m' x' beyond) as empty.
  destruct e; cbn [step] in happens;
    repeat match type of happens with
           | (if ?b then _ else _) = _ => destruct b eqn:?; try discriminate
           | match ?p with _ => _ end = _ => destruct p eqn:?; try discriminate
           end; inversion happens; subst; clear happens; try exact empty.
  - match goal with H : serve _ _ _ _ = _ |- _ => rename H into served end.
    pose proof (serve_fits w (server_clock (system_of w) m (now s)) r (keys s m) x' ok beyond (fit m x' beyond)) as none.
    rewrite served in none. cbn [fst] in none.
    destruct b; cbn; unfold update; destruct (_ =? _)%nat; assumption.
  - cbn. unfold update. destruct (m' =? m)%nat; [| assumption]. destruct (x' =? x)%nat; [reflexivity | now apply fit].
Qed.

Lemma tabulated : forall w t e s, is_sound w = true -> fits w (as_state t) ->
  step (system_of w) (as_state t) e = Some s -> alike s (as_state (tabulate w t e s)).
Proof.
  intros w t e s ok fit happens. pose proof (step_fits w _ e s ok fit happens) as fit'.
  assert (elsewhere : forall m x, server_in e <> Some m -> keys s m x = keys (as_state t) m x).
  { intros m' x' other. destruct e; cbn [step] in happens;
      repeat match type of happens with
             | (if ?b then _ else _) = _ => destruct b eqn:?; try discriminate
             | match ?p with _ => _ end = _ => destruct p eqn:?; try discriminate
             end; inversion happens; subst; clear happens; try reflexivity; cbn in other;
      try (match goal with |- context [if ?b then with_vote _ _ else _] => destruct b end);
      cbn; rewrite update_other by congruence; reflexivity. }
  assert (others : forall c, attempt_in e <> Some c -> phase_of s c = phase_of (as_state t) c).
  { intros c' other. destruct e; cbn [step] in happens;
      repeat match type of happens with
             | (if ?b then _ else _) = _ => destruct b eqn:?; try discriminate
             | match ?p with _ => _ end = _ => destruct p eqn:?; try discriminate
             end; inversion happens; subst; clear happens; try reflexivity; cbn in other;
      try (match goal with |- context [if ?b then with_vote _ _ else _] => destruct b; reflexivity end);
      try (cbn; rewrite update_other by congruence; reflexivity). }
  constructor; try reflexivity.
  - intros m x. cbn. destruct (server_in e) as [m' |] eqn:at_m; [| now apply elsewhere].
    destruct (Nat.eq_dec m m') as [<- | other].
    + rewrite replaced. destruct (Nat.lt_ge_cases x (resources w)).
      * now rewrite nth_tabulated.
      * rewrite nth_beyond by assumption. now apply fit'.
    + rewrite not_replaced by assumption. apply elsewhere. congruence.
  - intros c. cbn. destruct (attempt_in e) as [c' |] eqn:of_c; [| now apply others].
    cbn. destruct (Nat.eqb_spec c c') as [-> | other]; [reflexivity |].
    rewrite find_without by assumption. apply others. congruence.
Qed.

(* There is a run of the proved system that ends like this. *)
Definition is_of_a_run (w : world) (t : table) : Prop :=
  fits w (as_state t) /\ exists s, reachable (system_of w) s /\ alike s (as_state t).

Lemma alike_trans : forall a b c, alike a b -> alike b c -> alike a c.
Proof. intros a b c [] []. constructor; intros; congruence. Qed.
Lemma alike_sym : forall a b, alike a b -> alike b a.
Proof. intros a b []. constructor; intros; congruence. Qed.

Lemma first_is_of_a_run : forall w, is_of_a_run w first_table.
Proof.
  intros w. split; [intros [| m] [| x]; reflexivity |]. exists initial. split; [constructor |].
  constructor; try reflexivity. intros [| m] [| x]; reflexivity.
Qed.

Lemma step_is_of_a_run : forall w t e t', is_sound w = true -> is_of_a_run w t -> table_step w t e = Some t' ->
  is_of_a_run w t'.
Proof.
  intros w t e t' ok (fit & s & reached & same) happens. unfold table_step in happens.
  destruct (step _ _ e) as [u |] eqn:stepped; inversion happens; subst; clear happens.
  pose proof (tabulated w t e u ok fit stepped) as as_tabulated.
  destruct (step_alike _ _ _ e u (alike_sym _ _ same) stepped) as (s' & stepped' & same').
  split.
  - intros m x beyond. rewrite <- (same_keys _ _ as_tabulated). now apply (step_fits w _ e u ok fit stepped).
  - exists s'. split; [econstructor; eassumption |]. eapply alike_trans; [apply alike_sym |]; eassumption.
Qed.

(* ---- what a trace says ------------------------------------------------------------------------- *)

Inductive fact :=
| Sent_set (k : nat) (c : attempt) (n : node) (l : list resource) (ttl : Z) (* client k, for attempt c, to node n *)
| Sent_extend (k : nat) (c : attempt) (n : node) (ttl : Z)
| Sent_delete (k : nat) (c : attempt) (n : node)
| Served (n : node) (m : server) (r : request) (granted : bool)
| Got (n : node) (r : request)           (* its client receives that it was granted *)
| Key_is (m : server) (x : resource) (k : option key)
| Key_ended (m : server) (x : resource)
| Won (c : attempt) (until : time)       (* the client is told that it holds the lock until then *)
| Prolonged (c : attempt) (until : time) (* ... that an extension counts, and validity ends then *)
| Lost (c : attempt)                     (* ... that the lock is lost *)
| Released (c : attempt)                 (* from here on it does not act as holder *)
| Broken (c : attempt)                   (* it was an operator who released it: its client goes on *)
| Says (c : attempt) (rest_ms : Z) (held : bool). (* the client asks: so many milliseconds are left, and it is held *)

Record seen := { at_ : time; fact_of : fact }.

Definition only_if (b : bool) (t : option table) : option table := if b then t else None.
Definition is_sent (t : table) (r : request) : bool := existsb (request_eqb r) (t_sent t).
Definition clock_of (w : world) (t : table) (c : attempt) : time := client_clock (system_of w) c (t_now t).
Definition phase_in (t : table) (c : attempt) : phase := phase_of (as_state t) c.

Definition is_key (a b : option key) : bool :=
  match a, b with
  | Some a, Some b => (owner a =? owner b)%nat && (ends a =? ends b)
  | None, None => true
  | _, _ => false
  end.

(* The requests of this attempt go from its client to one of its nodes. *)
Definition from_to (w : world) (k : nat) (c : attempt) (n : node) : bool :=
  (client_of w c =? k)%nat && among (list_of (system_of w) c) n.

(* Servers grant what they grant in the proof, and nothing else. A release has no vote there. *)
Definition grants (w : world) (t : table) (m : server) (r : request) : bool :=
  snd (serve (system_of w) (server_clock (system_of w) m (t_now t)) r (keys (as_state t) m)).

(* The client has received as many votes for this request as it needs. A vote of the proof has no way back. *)
Definition got (w : world) (t : table) (r : request) : bool :=
  majority (system_of w) {| now := t_now t; keys := keys (as_state t); phase_of := phase_in t; sent := t_sent t; votes := t_got t |} r.

(* No answer is higher than what the proof lets the client believe. *)
Definition says_right (w : world) (t : table) (c : attempt) (rest_ms : Z) (held : bool) : bool :=
  let until := match phase_in t c with Holding until => until | _ => clock_of w t c end in
  (rest_ms * ms <=? Z.max 0 (until - clock_of w t c)) && (negb held || (clock_of w t c <? until)).

(* The extension that explains this end of validity. *)
Fixpoint prolong (w : world) (t : table) (c : attempt) (until : time) (l : list request) : option table :=
  match l with
  | [] => None
  | r :: l =>
      let prolonged := if action_eqb (what r) Extend && (by_ r =? c)%nat && got w t r
                       then table_step w t (Extended c (began r) (ttl r) until) else None in
      match prolonged with Some t' => Some t' | None => prolong w t c until l end
  end.

(* It holds the lock, or an operator has broken it. *)
Definition may_extend (t : table) (c : attempt) : bool :=
  among (t_broken t) c || match phase_in t c with Holding _ => true | _ => false end.

Definition with_broken (t : table) (c : attempt) : table :=
  {| t_now := t_now t; t_keys := t_keys t; t_phases := t_phases t; t_sent := t_sent t; t_votes := t_votes t;
     t_got := t_got t; t_broken := c :: t_broken t |}.

Definition check_fact (w : world) (t : table) (f : fact) : option table :=
  match f with
  | Sent_set k c n l ttl =>
      only_if (from_to w k c n && same_list (wanted w c) l)
        match phase_in t c with
        (* to one node more, or again *)
        | Trying _ _ | Holding _ =>
            if is_sent t (set_of c (t_now t) ttl) then Some t else table_step w t (Repairs c ttl)
        | Over =>
            if is_sent t (set_of c (t_now t) ttl) then Some t
            else only_if (among (t_broken t) c) (table_step w t (Repairs c ttl))
        | Idle => table_step w t (Begins c ttl)
        end
  | Sent_extend k c n ttl =>
      only_if (from_to w k c n && may_extend t c)
        (if is_sent t (extend_of c (t_now t) ttl) then Some t else table_step w t (Begins_extension c ttl))
  | Sent_delete k c n =>
      only_if (from_to w k c n)
        match phase_in t c with
        | Holding _ => None (* it released nothing *)
        | _ => if is_sent t (delete_of c) then Some t else table_step w t (Releases c)
        end
  | Served n m r granted =>
      only_if (Bool.eqb granted (grants w t m r)) (table_step w t (Arrives n m r))
  | Got n r => only_if (existsb (fun v => (voter v =? n)%nat && request_eqb (answered v) r) (t_votes t))
      (Some {| t_now := t_now t; t_keys := t_keys t; t_phases := t_phases t; t_sent := t_sent t; t_votes := t_votes t;
               t_got := {| voter := n; answered := r |} :: t_got t; t_broken := t_broken t |})
  | Key_is m x k => only_if (is_key k (keys (as_state t) m x)) (Some t)
  | Key_ended m x => table_step w t (Ends m x)
  | Won c until =>
      match phase_in t c with
      | Trying began ttl => only_if (got w t (set_of c began ttl)) (table_step w t (Wins c until))
      | _ => None
      end
  | Prolonged c until =>
      match phase_in t c with
      | Holding old => if until <=? old then Some t else prolong w t c until (t_sent t)
      | _ => None
      end
  | Lost c =>
      match phase_in t c with
      | Holding old => table_step w t (Cuts c (Z.min old (clock_of w t c)))
      | _ => Some t
      end
  | Released c => table_step w t (Releases c)
  | Broken c => only_if (match phase_in t c with Over => true | _ => false end) (Some (with_broken t c))
  | Says c rest_ms held => only_if (says_right w t c rest_ms held) (Some t)
  end.

Definition check_one (w : world) (t : table) (f : seen) : option table :=
  match table_step w t (Time_passes (at_ f - t_now t)) with
  | Some t' => check_fact w t' (fact_of f)
  | None => None
  end.

Fixpoint check (w : world) (t : table) (l : list seen) : option table :=
  match l with
  | [] => Some t
  | f :: l => match check_one w t f with Some t' => check w t' l | None => None end
  end.

(* Until when the client of this attempt has been told that it holds the lock. Nothing else than what
   the trace says enters here. *)
Definition tell (c : attempt) (known : option time) (f : fact) : option time :=
  match f with
  | Won d until | Prolonged d until => if (d =? c)%nat then Some until else known
  | Lost d | Released d => if (d =? c)%nat then None else known
  | _ => known
  end.
Definition told (l : list seen) (c : attempt) : option time := fold_left (fun known f => tell c known (fact_of f)) l None.

(* At the real time u the client of this attempt believes that it has the lock on x. *)
Definition believes (w : world) (l : list seen) (u : time) (c : attempt) (x : resource) : Prop :=
  exists until, told l c = Some until /\ client_clock (system_of w) c u < until /\ In x (wanted w c).

(* ---- what is accepted is a run ------------------------------------------------------------------ *)

Lemma only_if_some : forall b t t', only_if b t = Some t' -> b = true /\ t = Some t'.
Proof. intros [] t t' some; [now split | discriminate]. Qed.

Lemma prolong_steps : forall w t c until l t', prolong w t c until l = Some t' ->
  exists began ttl, table_step w t (Extended c began ttl until) = Some t'.
Proof.
  induction l as [| r l IH]; intros t' found; [discriminate |]. cbn [prolong] in found. cbv zeta in found.
  match type of found with match ?here with _ => _ end = _ => destruct here as [u |] eqn:stepped; [| auto] end.
  inversion found; subst. destruct (_ && _) in stepped; [eauto | discriminate].
Qed.

(* A fact is no step, or one. *)
Lemma fact_steps : forall w t f t', check_fact w t f = Some t' -> as_state t' = as_state t \/ exists e, table_step w t e = Some t'.
Proof.
  intros w t f t' ok. destruct f; cbn [check_fact] in ok;
    try (apply only_if_some in ok as [_ ok]); try (right; eexists; exact ok).
  - destruct (phase_in t c); try discriminate; try (right; eexists; exact ok);
      (destruct (is_sent _ _); [left; congruence |]; try (apply only_if_some in ok as [_ ok]); right; eauto).
  - destruct (is_sent _ _); [left; congruence | right; eauto].
  - destruct (phase_in t c); try discriminate; (destruct (is_sent _ _); [left; congruence | right; eauto]).
  - left. now inversion ok.
  - left. congruence.
  - destruct (phase_in t c); try discriminate. apply only_if_some in ok as [_ ok]. right. eauto.
  - destruct (phase_in t c); try discriminate. destruct (until <=? until0); [left; congruence |].
    apply prolong_steps in ok as (b & l & ok). right. eauto.
  - destruct (phase_in t c); try (left; congruence). right. eauto.
  - left. now inversion ok.
  - left. congruence.
Qed.

Lemma one_is_of_a_run : forall w t f t', is_sound w = true -> is_of_a_run w t -> check_one w t f = Some t' ->
  is_of_a_run w t'.
Proof.
  intros w t f t' ok run accepted. unfold check_one in accepted.
  destruct (table_step w t _) as [u |] eqn:passed; [| discriminate].
  pose proof (step_is_of_a_run w t _ u ok run passed) as run'.
  apply fact_steps in accepted as [same | [e stepped]]; [unfold is_of_a_run; now rewrite same |].
  now apply (step_is_of_a_run w u e t' ok).
Qed.

(* The client was told no more than the proof allows. *)
Definition is_told_right (w : world) (t : table) (known : attempt -> option time) : Prop :=
  forall c until, known c = Some until -> exists bound, phase_in t c = Holding bound /\ until <= bound.

Lemma phase_after : forall w t e t', is_sound w = true -> is_of_a_run w t -> table_step w t e = Some t' ->
  exists s, step (system_of w) (as_state t) e = Some s /\ forall c, phase_in t' c = phase_of s c.
Proof.
  intros w t e t' ok (fit & _) happens. unfold table_step in happens.
  destruct (step _ _ e) as [s |] eqn:stepped; inversion happens; subst.
  exists s. split; [reflexivity |]. intros c. symmetry. apply (same_phases _ _ (tabulated w t e s ok fit stepped)).
Qed.

Lemma now_after : forall w t e t', table_step w t e = Some t' ->
  t_now t' = match e with Time_passes span => t_now t + span | _ => t_now t end.
Proof.
  intros w t e t' happens. unfold table_step in happens.
  destruct (step _ _ e) as [s |] eqn:stepped; inversion happens; subst; clear happens. cbn [t_now tabulate].
  destruct e; cbn [step] in stepped;
    repeat match type of stepped with
           | (if ?b then _ else _) = _ => destruct b eqn:?; try discriminate
           | match ?p with _ => _ end = _ => destruct p eqn:?; try discriminate
           end; inversion stepped; subst; try reflexivity.
  now destruct b.
Qed.

Lemma keeps_holding : forall w t e t' c bound, is_sound w = true -> is_of_a_run w t -> table_step w t e = Some t' ->
  phase_in t c = Holding bound -> e <> Releases c -> (forall until, e <> Cuts c until) ->
  exists bound', phase_in t' c = Holding bound' /\ bound <= bound'.
Proof.
  intros w t e t' c bound ok run happens holding not_released not_cut.
  destruct (phase_after w t e t' ok run happens) as (s & stepped & phases). rewrite phases. clear phases happens.
  change (phase_of (as_state t) c = Holding bound) in holding.
  destruct e; cbn [step] in stepped;
    repeat match type of stepped with
           | (if ?b then _ else _) = _ => destruct b eqn:?; try discriminate
           | match ?p with _ => _ end = _ => destruct p eqn:?; try discriminate
           end; inversion stepped; subst; clear stepped;
    try (exists bound; split; [exact holding | lia]);
    try (match goal with |- context [if ?b then with_vote _ _ else _] =>
      destruct b; exists bound; (split; [exact holding | lia]) end).
  all: match goal with |- context [with_phase _ ?d _] =>
         destruct (Nat.eq_dec c d) as [<- | other];
         [| exists bound; split; [cbn; rewrite update_other by assumption; exact holding | lia]] end.
  all: try congruence.
  replace bound with until0 in * by congruence. eexists. cbn. rewrite update_same. split; [reflexivity | lia].
Qed.

Lemma told_right_after : forall w t known f t', is_sound w = true -> is_of_a_run w t -> is_told_right w t known ->
  check_one w t f = Some t' -> is_told_right w t' (fun c => tell c (known c) (fact_of f)).
Proof.
  intros w t known f t' ok run right accepted. unfold check_one in accepted.
  destruct (table_step w t (Time_passes _)) as [u |] eqn:passed; [| discriminate].
  assert (right' : is_told_right w u known).
  { intros c until is_known. destruct (right c until is_known) as (bound & holding & least).
    destruct (keeps_holding w t _ u c bound ok run passed holding) as (b & ? & ?); [discriminate | discriminate |].
    exists b. split; [assumption | lia]. }
  pose proof (step_is_of_a_run w t _ u ok run passed) as run'.
  clear t run right passed.
  (* all that a step does to those whom it is not about *)
  assert (others : forall e v c until, table_step w u e = Some v -> e <> Releases c -> (forall until, e <> Cuts c until) ->
    known c = Some until -> exists bound, phase_in v c = Holding bound /\ until <= bound).
  { intros e v c until happens ? ? is_known. destruct (right' c until is_known) as (bound & holding & least).
    destruct (keeps_holding w u e v c bound ok run' happens holding) as (b & ? & ?); [assumption .. |].
    exists b. split; [assumption | lia]. }
  intros c until is_known.
  destruct (fact_of f) as [k d n l ttl | k d n ttl | k d n | n m r granted | n r | m x k | m x | d v | d v | d | d | d | d];
    cbn [check_fact] in accepted; cbn [tell] in is_known;
    try (apply only_if_some in accepted as [_ accepted]).
  - destruct (phase_in u d); try discriminate;
      try (destruct (is_sent _ _); [inversion accepted; subst; auto |]);
      try (apply only_if_some in accepted as [_ accepted]); eapply others; eauto; discriminate.
  - destruct (is_sent _ _); [inversion accepted; subst; auto |]. eapply others; eauto; discriminate.
  - destruct (Nat.eq_dec c d) as [<- | other].
    + destruct (right' c until is_known) as (bound & holding & _). rewrite holding in accepted. discriminate.
    + destruct (phase_in u d); try discriminate;
        (destruct (is_sent _ _); [inversion accepted; subst; auto |]); (eapply others; eauto; congruence).
  - eapply others; eauto; discriminate.
  - inversion accepted; subst. exact (right' c until is_known).
  - inversion accepted; subst. auto.
  - eapply others; eauto; discriminate.
  - destruct (phase_in u d); try discriminate. apply only_if_some in accepted as [_ accepted].
    destruct (Nat.eqb_spec d c) as [-> | other]; [| eapply others; eauto; discriminate].
    inversion is_known; subst v.
    destruct (phase_after w u _ t' ok run' accepted) as (s & stepped & phases). rewrite phases.
    cbn [step] in stepped. destruct (phase_of (as_state u) c); try discriminate.
    destruct (_ && _); inversion stepped; subst. exists until. cbn. rewrite update_same. split; [reflexivity | lia].
  - destruct (phase_in u d) as [| | old |] eqn:holding; try discriminate.
    destruct (Nat.eqb_spec d c) as [-> | other].
    + inversion is_known; subst v. destruct (until <=? old) eqn:shorter.
      * inversion accepted; subst. exists old. split; [assumption | lia].
      * apply prolong_steps in accepted as (b & l & accepted).
        destruct (phase_after w u _ t' ok run' accepted) as (s & stepped & phases). rewrite phases.
        cbn [step] in stepped. destruct (phase_of (as_state u) c) as [| | old' |]; try discriminate.
        destruct (_ && _ && _ && _); inversion stepped; subst.
        exists (Z.max old' until). cbn. rewrite update_same. split; [reflexivity | lia].
    + destruct (v <=? old); [inversion accepted; subst; auto |].
      apply prolong_steps in accepted as (b & l & accepted). eapply others; eauto; discriminate.
  - destruct (Nat.eqb_spec d c) as [-> | other]; [discriminate |].
    destruct (phase_in u d); try (inversion accepted; subst; auto).
    eapply others; eauto; congruence.
  - destruct (Nat.eqb_spec d c) as [-> | other]; [discriminate |].
    eapply others; eauto; congruence.
  - inversion accepted; subst. exact (right' c until is_known).
  - inversion accepted; subst. auto.
Qed.

Lemma check_is_right : forall w l t known t', is_sound w = true -> is_of_a_run w t -> is_told_right w t known ->
  check w t l = Some t' ->
  is_of_a_run w t' /\ is_told_right w t' (fun c => fold_left (fun known f => tell c known (fact_of f)) l (known c)).
Proof.
  intros w. induction l as [| f l IH]; intros t known t' ok run right accepted; cbn [check] in accepted.
  - inversion accepted; subst. split; assumption.
  - destruct (check_one w t f) as [u |] eqn:one; [| discriminate]. cbn [fold_left].
    apply (IH u (fun c => tell c (known c) (fact_of f)) t' ok); [| | assumption].
    + eapply one_is_of_a_run; eassumption.
    + eapply told_right_after; eassumption.
Qed.

Lemma check_app : forall w l l' t t', check w t (l ++ l') = Some t' -> exists u, check w t l = Some u.
Proof.
  intros w. induction l as [| f l IH]; intros l' t t' accepted; [cbn; eauto |].
  cbn [app check] in *. destruct (check_one w t f) as [u |]; [eauto | discriminate].
Qed.

(* The real time of the last fact. *)
Definition time_of (l : list seen) : time := last (map at_ l) 0.

Lemma fact_now : forall w t f t', check_fact w t f = Some t' -> t_now t' = t_now t.
Proof.
  intros w t f t' ok.
  assert (it : forall e, match e with Time_passes _ => False | _ => True end -> table_step w t e = Some t' -> t_now t' = t_now t).
  { intros e not_time happens. pose proof (now_after w t e t' happens). now destruct e. }
  destruct f; cbn [check_fact] in ok; try (apply only_if_some in ok as [_ ok]); try (eapply it; [| exact ok]; exact I).
  - destruct (phase_in t c); try discriminate; try (eapply it; [| exact ok]; exact I).
    + destruct (is_sent _ _); [congruence | eapply it; [| exact ok]; exact I].
    + destruct (is_sent _ _); [congruence | eapply it; [| exact ok]; exact I].
    + destruct (is_sent _ _); [congruence |]. apply only_if_some in ok as [_ ok]. eapply it; [| exact ok]; exact I.
  - destruct (is_sent _ _); [congruence | eapply it; [| exact ok]; exact I].
  - destruct (phase_in t c); try discriminate; (destruct (is_sent _ _); [congruence | eapply it; [| exact ok]; exact I]).
  - now inversion ok.
  - congruence.
  - destruct (phase_in t c); try discriminate. apply only_if_some in ok as [_ ok]. eapply it; [| exact ok]; exact I.
  - destruct (phase_in t c); try discriminate. destruct (_ <=? _); [congruence |].
    apply prolong_steps in ok as (b & l & ok). eapply it; [| exact ok]; exact I.
  - destruct (phase_in t c); try congruence. eapply it; [| exact ok]; exact I.
  - now inversion ok.
  - congruence.
Qed.

Lemma check_now : forall w l t t', check w t l = Some t' -> t_now t' = last (map at_ l) (t_now t).
Proof.
  intros w. induction l as [| f l IH]; intros t t' accepted; cbn [check] in accepted; [cbn; congruence |].
  destruct (check_one w t f) as [u |] eqn:one; [| discriminate].
  assert (at_f : t_now u = at_ f).
  { unfold check_one in one. destruct (table_step w t _) as [v |] eqn:passed; [| discriminate].
    apply fact_now in one. apply now_after in passed. lia. }
  rewrite (IH u t' accepted), at_f. cbn [map]. destruct l as [| g l]; [reflexivity |]. cbn [map].
  generalize (at_ g) (map at_ l). clear. intros a l. revert a. induction l as [| b l IH]; intros a; [reflexivity |].
  cbn [last] in *. apply IH.
Qed.

(* Whatever a trace says that the checker accepts: at no moment do two clients believe that they have the
   lock on the same resource. Moments between two facts count too, hence the beginnings l of the trace. *)
Theorem accepted_traces_exclude : forall w, is_sound w = true ->
  forall l l' t, check w first_table (l ++ l') = Some t ->
  forall u, time_of l <= u ->
  forall c d x, believes w l u c x -> believes w l u d x -> c = d.
Proof.
  intros w ok l l' t accepted u later c d x (until_c & told_c & valid_c & of_c) (until_d & told_d & valid_d & of_d).
  destruct (check_app w l l' _ _ accepted) as [v accepted_l].
  destruct (check_is_right w l first_table (fun _ => None) v ok (first_is_of_a_run w)) as [run right];
    [intros ? ? known; discriminate | assumption |].
  pose proof (check_now w l _ _ accepted_l) as now_v. cbn [t_now first_table] in now_v. fold (time_of l) in now_v.
  destruct run as (_ & s & reached & same).
  destruct (right c until_c told_c) as (bound_c & holds_c & most_c).
  destruct (right d until_d told_d) as (bound_d & holds_d & most_d).
  assert (now_s : now s = time_of l) by (rewrite (same_now _ _ same); exact now_v).
  assert (passes : reachable (system_of w) (with_now s u)).
  { eapply and_then with (e := Time_passes (u - now s)); [exact reached |]. cbn [step].
    destruct (0 <=? u - now s) eqn:forward; [| lia]. do 2 f_equal. lia. }
  apply (exclusion (system_of w) (sound_worlds_are_sound w ok) (with_now s u) passes c d x).
  - split; [| exact of_c]. unfold inside. cbn [phase_of with_now now]. rewrite (same_phases _ _ same).
    change (phase_of (as_state v) c) with (phase_in v c). rewrite holds_c. apply Z.ltb_lt. lia.
  - split; [| exact of_d]. unfold inside. cbn [phase_of with_now now]. rewrite (same_phases _ _ same).
    change (phase_of (as_state v) d) with (phase_in v d). rewrite holds_d. apply Z.ltb_lt. lia.
Qed.

(* While a client answers that a lock is held, or that some of its validity is left, no other one believes
   that it has it. *)
Theorem accepted_answers_exclude : forall w, is_sound w = true ->
  forall l u c rest_ms held l' t,
  check w first_table (l ++ {| at_ := u; fact_of := Says c rest_ms held |} :: l') = Some t ->
  0 < rest_ms \/ held = true ->
  forall d x, In x (wanted w c) -> believes w l u d x -> c = d.
Proof.
  intros w ok l u c rest_ms held l' t accepted claims d x of_c (until_d & told_d & valid_d & of_d).
  destruct (check_app w l _ _ _ accepted) as [v accepted_l].
  assert (one : exists v', check_one w v {| at_ := u; fact_of := Says c rest_ms held |} = Some v').
  { clear -accepted accepted_l. revert v accepted_l accepted. generalize first_table.
    induction l as [| f l IH]; intros t0 v is; cbn [app check] in *.
    - inversion is; subst. destruct (check_one w v _); [eauto | discriminate].
    - destruct (check_one w t0 f); [eauto | discriminate]. }
  destruct one as [v' one].
  destruct (check_is_right w l first_table (fun _ => None) v ok (first_is_of_a_run w)) as [run right];
    [intros ? ? known; discriminate | assumption |].
  destruct (right d until_d told_d) as (bound_d & holds_d & most_d).
  unfold check_one in one. cbn [at_ fact_of] in one.
  destruct (table_step w v (Time_passes (u - t_now v))) as [v1 |] eqn:passed; [| discriminate].
  destruct (keeps_holding w v _ v1 d bound_d ok run passed holds_d) as (bound_d' & holds_d' & most_d');
    [discriminate | discriminate |].
  pose proof (step_is_of_a_run w v _ v1 ok run passed) as (_ & s & reached & same).
  pose proof (now_after w v _ v1 passed) as now_v1. cbn in now_v1.
  assert (now_s : now s = u) by (rewrite (same_now _ _ same); cbn; lia).
  cbn [check_fact] in one. apply only_if_some in one as [says _]. unfold says_right in says. cbv zeta in says.
  apply andb_true_iff in says as [most is_held]. apply Z.leb_le in most.
  set (until_c := match phase_in v1 c with Holding until => until | _ => clock_of w v1 c end) in *.
  assert (before : clock_of w v1 c < until_c).
  { destruct claims as [some | ->]; [unfold ms in most; lia |]. cbn in is_held. now apply Z.ltb_lt. }
  assert (at_u : clock_of w v1 c = client_clock (system_of w) c u) by (unfold clock_of; f_equal; lia).
  apply (exclusion (system_of w) (sound_worlds_are_sound w ok) s reached c d x); (split; [| assumption]);
    unfold inside; rewrite now_s, (same_phases _ _ same).
  - change (phase_of (as_state v1) c) with (phase_in v1 c). subst until_c.
    destruct (phase_in v1 c); try (now apply Z.lt_irrefl in before). apply Z.ltb_lt. lia.
  - change (phase_of (as_state v1) d) with (phase_in v1 d). rewrite holds_d'. apply Z.ltb_lt. lia.
Qed.
