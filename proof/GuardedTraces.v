(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode: a checker of traces, and that what it accepts is a run of the proved system.

   A trace says what happened in one run of the code: what servers did, and until when, and with which
   fencing token, clients were told that they hold a lock. The checker computes with `step` of Guarded.v
   itself, on its states. What a trace does not say, for instance which votes were counted, is a hint
   that the reader of traces has added: a wrong hint is refused, as `step` refuses it. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory Guarded GuardedTokens GuardedExclusion.
From Redlock Require ClassicTraces.
Import ListNotations.
Open Scope Z_scope.

Notation segment := ClassicTraces.segment.
Notation clock_at := ClassicTraces.clock_at.
Notation is_steady := ClassicTraces.is_steady.
Notation is_not_quick := ClassicTraces.is_not_quick.
Notation true_clock := ClassicTraces.true_clock.
Notation segments_max := ClassicTraces.segments_max.
Notation find := ClassicTraces.find.

(* The same function. As a program it has computed its first n values. *)
Definition memo {A : Type} (n : nat) (f : nat -> A) : nat -> A := f.
(* As a program it is an array. *)
Definition nth_of {A : Type} (l : list A) (otherwise : A) : nat -> A := fun n => nth n l otherwise.

(* ---- the world of a trace ---------------------------------------------------------------------- *)

Record world := {
  nodes : nat;
  bodies : list (body * (node * rank));       (* those that are not the first ones *)
  client_clocks : list (list segment);        (* by client *)
  confirms : list bool;                       (* by client: it confirms its locks *)
  body_clocks : list (list segment);          (* by body *)
  attempts : list (attempt * (nat * resource)); (* by whom, and for what *)
  times : list time;                          (* of the moments *)
  ends_at : time;                             (* of all moments after them *)
  slow_ppm : Z; quick_ppm : Z;                (* how slow and how fast clients' clocks are *)
  fast_ppm : Z;                               (* how fast those of servers are *)
  ppm : Z; fixed : Z;                         (* the drift allowance of the clients *)
  longest_ttl : Z;
}.

Definition client_of (w : world) (c : attempt) : nat :=
  match find (attempts w) c with Some (k, _) => k | None => O end.

(* How many values a program computes beforehand. *)
Definition many_bodies (w : world) : nat := (nodes w + length (bodies w))%nat.
Definition many_attempts (w : world) : nat := fold_right (fun a n => Nat.max (S (fst a)) n) O (attempts w).
Definition many_resources : nat := 8.

Definition system_of (w : world) : system := {|
  members := nodes w;
  member_of := memo (many_bodies w) (fun b => if (b <? nodes w)%nat then b else
    match find (bodies w) b with Some (m, _) => if (m <? nodes w)%nat then m else O | None => O end);
  rank_of := memo (many_bodies w) (fun b => if (b <? nodes w)%nat then O else
    match find (bodies w) b with Some (_, r) => r | None => O end);
  resource_of := memo (many_attempts w) (fun c => match find (attempts w) c with Some (_, x) => x | None => O end);
  stripe_of := fun x => x;
  time_at := nth_of (times w) (ends_at w);
  client_clock := fun c => clock_at (nth (client_of w c) (client_clocks w) true_clock);
  agent_clock := fun a => clock_at (nth a (client_clocks w) true_clock);
  server_clock := fun b t => ClassicTraces.whole_ms (clock_at (nth b (body_clocks w) true_clock) t);
  client_ppm := slow_ppm w; server_ppm := fast_ppm w; agent_ppm := quick_ppm w;
  client_error := Z.of_nat (segments_max (client_clocks w));
  server_error := ms + Z.of_nat (segments_max (body_clocks w));
  agent_error := Z.of_nat (segments_max (client_clocks w));
  drift_ppm := ppm w; drift_fixed := fixed w;
  ttl_max := longest_ttl w;
  drops := fun _ => false;
|}.

Fixpoint in_order (l : list time) (last : time) : bool :=
  match l with [] => true | t :: l => (t <=? hd last l) && in_order l last end.

Definition drift_covers_b (y : system) : bool :=
  (drift_ppm y <=? million) && (client_ppm y <=? million) &&
  ((million + server_ppm y) * (million - drift_ppm y) <=? million * (million - client_ppm y)) &&
  ((million - drift_ppm y) * server_error y + million * client_error y <=? million * drift_fixed y).

Definition wait_covers_b (y : system) : bool :=
  (0 <=? drift_ppm y) && (0 <=? drift_fixed y) && (client_error y <=? drift_fixed y) &&
  ((million + agent_ppm y) * (million - drift_ppm y) <=? (million - client_ppm y) * (million + drift_ppm y)).

(* The clocks of servers may step. *)
Definition is_sound (w : world) : bool :=
  (0 <? nodes w)%nat && in_order (0 :: times w) (ends_at w) &&
  forallb (is_steady (million - slow_ppm w) (million + quick_ppm w)) (client_clocks w) &&
  forallb (forallb (fun g => (0 <=? ClassicTraces.rate g) && (ClassicTraces.rate g <=? million + fast_ppm w))) (body_clocks w) &&
  (0 <=? slow_ppm w) && (slow_ppm w <=? million) && (0 <=? quick_ppm w) && (0 <=? fast_ppm w) &&
  drift_covers_b (system_of w) && wait_covers_b (system_of w).

(* No server's clock steps forward after the one time and until the other. A clock that is set back does no harm: keys
   only end later. *)
Fixpoint no_step (since until : time) (clock : list segment) : bool :=
  match clock with
  | g :: (_ :: _) as older =>
      ((ClassicTraces.from g <=? since) || (until <? ClassicTraces.from g) ||
       (ClassicTraces.shown g <=? clock_at older (ClassicTraces.from g))) && no_step since until older
  | _ => true
  end.
Definition is_calm (w : world) (since until : time) : bool := forallb (no_step since until) (body_clocks w).
Definition never_steps (w : world) : bool := forallb (is_not_quick (million + fast_ppm w)) (body_clocks w).

Lemma in_order_nth : forall l last, in_order l last = true -> forall m n, (m <= n)%nat -> nth m l last <= nth n l last.
Proof.
  intros l last. induction l as [| t l IH]; intros order m n less; [destruct m, n; cbn; lia |].
  cbn [in_order] in order. apply andb_true_iff in order as [first order]. apply Z.leb_le in first.
  destruct m as [| m], n as [| n]; cbn [nth]; try lia.
  - specialize (IH order 0%nat n ltac:(lia)). destruct l; cbn in *; destruct n; lia.
  - apply IH; [assumption | lia].
Qed.

Lemma no_step_runs : forall most since until clock, million <= most ->
  forallb (fun g => (0 <=? ClassicTraces.rate g) && (ClassicTraces.rate g <=? most)) clock = true ->
  no_step since until clock = true -> forall t t', since <= t -> t <= t' -> t' <= until ->
  million * (clock_at clock t' - clock_at clock t) <= most * (t' - t) + million * Z.of_nat (length clock).
Proof.
  intros most since until. induction clock as [| g older IH]; intros more rates calm t t' first order last_.
  - cbn [clock_at length Z.of_nat]. pose proof (Z.mul_nonneg_nonneg (most - million) (t' - t) ltac:(lia) ltac:(lia)). lia.
  - cbn [forallb] in rates. rewrite !andb_true_iff, !Z.leb_le in rates. destruct rates as [[low high] rates].
    destruct older as [| h older].
    + cbn [ClassicTraces.clock_at length]. pose proof (ClassicTraces.one_segment 0 most g t t' low high order). lia.
    + set (rest := h :: older) in *.
      assert (parts : (ClassicTraces.from g <= since \/ until < ClassicTraces.from g \/
        ClassicTraces.shown g <= clock_at rest (ClassicTraces.from g)) /\ no_step since until rest = true).
      { subst rest. cbn [no_step] in calm |- *. rewrite andb_true_iff, !orb_true_iff, !Z.leb_le, Z.ltb_lt in calm. tauto. }
      destruct parts as (joint & calm').
      assert (at_g : forall u, clock_at (g :: rest) u =
        if ClassicTraces.from g <=? u then ClassicTraces.segment_at g u else clock_at rest u) by reflexivity.
      rewrite !at_g. replace (Z.of_nat (length (g :: rest))) with (1 + Z.of_nat (length rest)) by (cbn [length]; lia).
      destruct (ClassicTraces.from g <=? t) eqn:before; destruct (ClassicTraces.from g <=? t') eqn:before'; try lia.
      * pose proof (ClassicTraces.one_segment 0 most g t t' low high order). unfold million in *. lia.
      * specialize (IH more rates calm' t (ClassicTraces.from g) first ltac:(lia) ltac:(lia)).
        pose proof (ClassicTraces.one_segment 0 most g (ClassicTraces.from g) t' low high ltac:(lia)) as end_.
        assert (start : ClassicTraces.segment_at g (ClassicTraces.from g) = ClassicTraces.shown g)
          by (unfold ClassicTraces.segment_at; rewrite ClassicTraces.run_of_start; lia).
        rewrite start in end_. unfold million in *. lia.
      * specialize (IH more rates calm' t t' first order last_). unfold million in *. lia.
Qed.

Section World.
Variable w : world.
Hypothesis ok : is_sound w = true.
Notation y := (system_of w).

Lemma is_sound_parts :
  (0 < nodes w)%nat /\ in_order (0 :: times w) (ends_at w) = true /\
  forallb (is_steady (million - slow_ppm w) (million + quick_ppm w)) (client_clocks w) = true /\
  forallb (forallb (fun g => (0 <=? ClassicTraces.rate g) && (ClassicTraces.rate g <=? million + fast_ppm w))) (body_clocks w) = true /\
  0 <= slow_ppm w <= million /\ 0 <= quick_ppm w /\ 0 <= fast_ppm w /\
  drift_covers_b y = true /\ wait_covers_b y = true.
Proof.
  unfold is_sound in ok. rewrite !andb_true_iff, !Z.leb_le, Nat.ltb_lt in ok. tauto.
Qed.

Lemma time_is_positive : forall n, 0 <= time_at y n.
Proof.
  intros n. destruct is_sound_parts as (_ & order & _).
  apply (in_order_nth _ _ order 0%nat (S n)). lia.
Qed.

Lemma world_is_well_formed : well_formed y.
Proof.
  destruct is_sound_parts as (some & order & _).
  constructor.
  - intros b. cbn [member_of members system_of]. unfold memo. destruct (Nat.ltb_spec b (nodes w)); [assumption |].
    destruct (find (bodies w) b) as [[m r] |]; [| assumption]. destruct (Nat.ltb_spec m (nodes w)); assumption.
  - intros b first. cbn [member_of rank_of members system_of] in *. unfold memo.
    destruct (Nat.ltb_spec b (nodes w)); [now split | lia].
  - intros m n less. apply (in_order_nth _ _ order (S m) (S n)). lia.
Qed.

Lemma world_obeys : obeys y.
Proof. intros r. reflexivity. Qed.

Lemma client_is_steady : forall k,
  is_steady (million - slow_ppm w) (million + quick_ppm w) (nth k (client_clocks w) true_clock) = true.
Proof.
  intros k. destruct is_sound_parts as (_ & _ & clients & _ & slow & quick & _).
  apply ClassicTraces.is_steady_nth; [assumption | lia].
Qed.

Lemma world_clients_run : clients_run y.
Proof.
  destruct is_sound_parts as (_ & _ & _ & _ & slow & quick & fast & covers & waits).
  unfold drift_covers_b in covers. unfold wait_covers_b in waits. rewrite !andb_true_iff, !Z.leb_le in covers, waits.
  constructor.
  - intros c t t' order. cbn [client_clock client_ppm client_error system_of].
    pose proof (ClassicTraces.steady_runs _ _ _ (client_is_steady (client_of w c)) t t' order) as [runs _].
    pose proof (ClassicTraces.segments_at_most (client_clocks w) (client_of w c)). unfold million in *. lia.
  - intros a t t' order. cbn [agent_clock agent_ppm agent_error system_of].
    pose proof (ClassicTraces.steady_runs _ _ _ (client_is_steady a) t t' order) as [_ runs].
    pose proof (ClassicTraces.segments_at_most (client_clocks w) a). unfold million in *. lia.
  - unfold drift_covers. tauto.
  - unfold wait_covers. cbn [agent_ppm system_of] in *. unfold million in *. intuition lia.
Qed.

Lemma clock_of_body : forall (good : list segment -> bool), forallb good (body_clocks w) = true -> good true_clock = true ->
  forall b, good (nth b (body_clocks w) true_clock) = true.
Proof.
  intros good all otherwise b. destruct (nth_in_or_default b (body_clocks w) true_clock) as [among | ->]; [| assumption].
  rewrite forallb_forall in all. auto.
Qed.

(* What a bound of its clock says of what a server shows. *)
Lemma shows_whole_ms : forall b t t', t <= t' ->
  million * (clock_at (nth b (body_clocks w) true_clock) t' - clock_at (nth b (body_clocks w) true_clock) t)
  <= (million + fast_ppm w) * (t' - t) + million * Z.of_nat (length (nth b (body_clocks w) true_clock)) ->
  million * (server_clock y b t' - server_clock y b t) <= (million + server_ppm y) * (t' - t) + million * server_error y.
Proof.
  intros b t t' order runs. cbn [server_clock server_ppm server_error system_of].
  pose proof (ClassicTraces.segments_at_most (body_clocks w) b).
  pose proof (ClassicTraces.whole_ms_bounds (clock_at (nth b (body_clocks w) true_clock) t)).
  pose proof (ClassicTraces.whole_ms_bounds (clock_at (nth b (body_clocks w) true_clock) t')).
  unfold million in *. lia.
Qed.

Lemma calm_servers_run : forall since until, is_calm w since until = true -> servers_run y since until.
Proof.
  intros since until calm b t t' first order last_. apply shows_whole_ms; [assumption |].
  destruct is_sound_parts as (_ & _ & _ & rates & _ & _ & fast & _).
  apply (no_step_runs _ since until); [lia | | | assumption | assumption | assumption].
  - apply (clock_of_body _ rates). cbn [true_clock forallb]. rewrite andb_true_r.
    change (ClassicTraces.rate _) with million. apply andb_true_iff. split; apply Z.leb_le; [discriminate | lia].
  - now apply (clock_of_body _ calm).
Qed.

Lemma world_clocks_run : never_steps w = true -> clocks_run y.
Proof.
  intros never. split; [apply world_clients_run |]. intros since until b t t' _ order _. apply shows_whole_ms; [assumption |].
  destruct is_sound_parts as (_ & _ & _ & _ & _ & _ & fast & _).
  apply ClassicTraces.not_quick_runs; [| assumption]. apply ClassicTraces.is_not_quick_nth; [assumption | lia].
Qed.

(* Clients' clocks never go back. *)
Lemma run_grows : forall g t t', 0 <= ClassicTraces.rate g -> t <= t' ->
  ClassicTraces.segment_at g t <= ClassicTraces.segment_at g t'.
Proof.
  intros g t t' rate order.
  assert (is : forall u, ClassicTraces.run_of g u = (u - ClassicTraces.from g) * ClassicTraces.rate g / million).
  { intros u. unfold ClassicTraces.run_of. set (d := u - ClassicTraces.from g).
    rewrite (Z.div_mod d million) at 3 by discriminate.
    replace ((million * (d / million) + d mod million) * ClassicTraces.rate g)
      with (d mod million * ClassicTraces.rate g + d / million * ClassicTraces.rate g * million) by ring.
    rewrite Z.div_add by discriminate. lia. }
  unfold ClassicTraces.segment_at. rewrite !is.
  apply Zplus_le_compat_l, Z.div_le_mono; [reflexivity |]. apply Z.mul_le_mono_nonneg_r; lia.
Qed.

Lemma clock_grows : forall least most clock, 0 <= least -> is_steady least most clock = true ->
  forall t t', t <= t' -> clock_at clock t <= clock_at clock t'.
Proof.
  intros least most. induction clock as [| g older IH]; [discriminate |]. intros positive steady t t' order.
  destruct older as [| h older].
  - cbn [ClassicTraces.is_steady] in steady. apply andb_true_iff in steady as [low _]. apply Z.leb_le in low.
    cbn [ClassicTraces.clock_at]. apply run_grows; lia.
  - set (rest := h :: older) in *.
    assert (parts : least <= ClassicTraces.rate g /\ ClassicTraces.shown g = clock_at rest (ClassicTraces.from g) /\
                    is_steady least most rest = true).
    { subst rest. cbn [ClassicTraces.is_steady] in steady |- *. rewrite !andb_true_iff in steady.
      rewrite !Z.leb_le, Z.eqb_eq in steady. tauto. }
    destruct parts as (low & joint & steady').
    assert (at_g : forall u, clock_at (g :: rest) u =
      if ClassicTraces.from g <=? u then ClassicTraces.segment_at g u else clock_at rest u) by reflexivity.
    rewrite !at_g.
    destruct (ClassicTraces.from g <=? t) eqn:before; destruct (ClassicTraces.from g <=? t') eqn:before'; try lia.
    + apply run_grows; lia.
    + pose proof (IH positive steady' t (ClassicTraces.from g) ltac:(lia)).
      pose proof (run_grows g (ClassicTraces.from g) t' ltac:(lia) ltac:(lia)) as last.
      unfold ClassicTraces.segment_at in last at 1. rewrite ClassicTraces.run_of_start in last. lia.
    + apply IH; assumption || lia.
Qed.

Lemma client_clock_grows : forall c t t', t <= t' -> client_clock y c t <= client_clock y c t'.
Proof.
  intros c. cbn [client_clock system_of]. destruct is_sound_parts as (_ & _ & _ & _ & slow & _).
  apply (clock_grows (million - slow_ppm w) (million + quick_ppm w)); [lia |]. apply client_is_steady.
Qed.

End World.

(* ---- what a trace says -------------------------------------------------------------------------- *)

Inductive fact :=
| Happens (e : event)                              (* on a server; or an attempt begins *)
| Key_is (b : body) (x : resource) (k : option key)
| Fence_is (b : body) (x : resource) (t : Z)
| Knows_is (b : body) (n : node) (r : rank)
| Is_intact (b : body)
| Won (c : attempt) (until : time) (t : Z) (votes : list nat) (confirm : option (list nat))
| Prolonged (c : attempt) (until : time) (began : nat) (ttl : Z) (votes : list nat)
| Lost (c : attempt)
| Released (c : attempt)
(* The client asks: so many milliseconds are left, it is held, and this is its token, or 0. *)
| Says (c : attempt) (rest_ms : Z) (held : bool) (t : Z).

Record told := { at_ : time; fact_of : fact }.

Definition same_key (a b : option key) : bool :=
  match a, b with
  | None, None => true
  | Some a, Some b => (owner a =? owner b)%nat && (ends a =? ends b)
  | _, _ => false
  end.

(* Not what a client is told. *)
Definition is_servers (e : event) : bool :=
  match e with Wins _ _ _ _ _ | Extended _ _ _ _ _ | Cuts _ _ | Releases _ => false | _ => true end.

Definition has_won (s : state) (c : attempt) : bool := existsb (fun g => (winner g =? c)%nat) (grants s).

(* The client goes on only at the moment at which it is told: the next moment has the same time. *)
Definition at_once (y : system) (t : time) (s : option state) : option state :=
  match s with Some s => when (now y s =? t) s | None => None end.

(* No answer is higher than what the proof lets the client believe. *)
Definition says_right (y : system) (s : state) (t : time) (c : attempt) (rest_ms : Z) (held : bool) (token : Z) : bool :=
  let clock := client_clock y c t in
  let until := match phase_of s c with Holding until => until | _ => clock end in
  let is_inside := clock <? until in
  (rest_ms * ms <=? Z.max 0 (until - clock)) && (negb held || is_inside) &&
  if token =? 0 then rest_ms <=? 0
  else is_inside && existsb (fun g => (winner g =? c)%nat && (fencing_token g =? token)) (grants s).

Definition check_fact (y : system) (s : state) (t : time) (f : fact) : option state :=
  match f with
  | Happens e => if is_servers e then step y s e else None
  | Key_is b x k => when (same_key (keys s b x) k) s
  | Fence_is b x t => when (fence s b x =? t) s
  | Knows_is b n r => when (knows s b n =? r)%nat s
  | Is_intact b => when (intact s b) s
  | Won c until t' votes confirm =>
      if has_won s c then None else at_once y t (step y s (Wins c t' votes confirm until))
  | Prolonged c until began ttl votes =>
      match phase_of s c with
      | Holding old => at_once y t (if until <=? old then Some s else step y s (Extended c began ttl votes until))
      | _ => None
      end
  | Lost c =>
      match phase_of s c with
      | Holding old => step y s (Cuts c (Z.min old (client_clock y c t)))
      | _ => Some s
      end
  | Released c => step y s (Releases c)
  | Says c rest_ms held token => when (says_right y s t c rest_ms held token) s
  end.

(* The same state (kept_is), as functions that are computed beforehand, for so many bodies and attempts. *)
Record sizes := { of_bodies : nat; of_attempts : nat }.
Definition sizes_of (w : world) : sizes := {| of_bodies := many_bodies w; of_attempts := many_attempts w |}.

Definition kept (k : sizes) (s : state) : state :=
  let each {A : Type} := @memo A (of_bodies k) in
  let few {A : Type} := @memo A many_resources in
  {| moment_now := moment_now s; life_of := each (life_of s); claims := claims s; claimed_at := each (claimed_at s);
     knows := each (fun b => few (knows s b)); fence := each (fun b => few (fence s b));
     keys := each (fun b => few (keys s b)); registered := each (registered s); birth_of := each (birth_of s);
     log := log s; sets := sets s; phase_of := memo (of_attempts k) (phase_of s); grants := grants s |}.

Lemma kept_is : forall k s, kept k s = s.
Proof. now intros k []. Qed.

Definition check_one (k : sizes) (y : system) (s : state) (f : told) : option state :=
  if at_ f =? now y s then
    match check_fact y s (at_ f) (fact_of f) with
    | Some s => Some (if (moment_now s mod 32 =? 0)%nat then kept k s else s)
    | None => None
    end
  else None.

Fixpoint follow (k : sizes) (y : system) (s : state) (l : list told) : option state :=
  match l with
  | [] => Some s
  | f :: l => match check_one k y s f with Some s => follow k y s l | None => None end
  end.

(* Who asked for the confirm round got it. *)
Definition is_confirmed (w : world) (f : told) : bool :=
  match fact_of f with Won c _ _ _ None => negb (nth (client_of w c) (confirms w) true) | _ => true end.

Definition check (w : world) (l : list told) : option state :=
  let y := system_of w in if forallb (is_confirmed w) l then follow (sizes_of w) y (initial y) l else None.

Lemma check_follows : forall w l s, check w l = Some s -> follow (sizes_of w) (system_of w) (initial (system_of w)) l = Some s.
Proof. intros w l s accepted. unfold check in accepted. cbv zeta in accepted. now destruct (forallb _ _). Qed.

(* Until when the client of this attempt has been told that it holds the lock. Nothing else than what
   the trace says enters here. *)
Definition tell (c : attempt) (known : option time) (f : fact) : option time :=
  match f with
  | Won d until _ _ _ | Prolonged d until _ _ _ => if (d =? c)%nat then Some until else known
  | Lost d | Released d => if (d =? c)%nat then None else known
  | _ => known
  end.
Definition known_after (l : list told) (c : attempt) : option time :=
  fold_left (fun known f => tell c known (fact_of f)) l None.

(* At the real time u the client of this attempt believes that it has the lock on x. *)
Definition believes_by (w : world) (known : attempt -> option time) (u : time) (c : attempt) (x : resource) : Prop :=
  exists until, known c = Some until /\ client_clock (system_of w) c u < until /\ resource_of (system_of w) c = x.
Definition believes (w : world) (l : list told) := believes_by w (known_after l).

(* The real time of the last fact. *)
Definition time_of (l : list told) : time := last (map at_ l) 0.

(* ---- what is accepted is a run ------------------------------------------------------------------ *)

Lemma check_one_is : forall k y s f s', check_one k y s f = Some s' ->
  at_ f = now y s /\ check_fact y s (at_ f) (fact_of f) = Some s'.
Proof.
  intros k y s f s' one. unfold check_one in one. destruct (at_ f =? now y s) eqn:on_time; [| discriminate].
  destruct (check_fact y s (at_ f) (fact_of f)) as [t |]; [| discriminate]. split; [lia |].
  inversion one. destruct (_ =? 0)%nat; now rewrite ?kept_is.
Qed.

Lemma at_once_is : forall y t o s, at_once y t o = Some s -> o = Some s /\ now y s = t.
Proof.
  intros y t [u |] s is; [| discriminate]. apply when_some in is as [same ->]. split; [reflexivity | lia].
Qed.

(* A fact is no step, or one. *)
Lemma fact_steps : forall y s t f s', check_fact y s t f = Some s' -> s' = s \/ exists e, step y s e = Some s'.
Proof.
  intros y s t f s' is. destruct f; cbn [check_fact] in is;
    try (apply when_some in is as [_ ->]; now left); try (right; eexists; exact is).
  - destruct (is_servers e); [right; eauto | discriminate].
  - destruct (has_won s c); [discriminate |]. apply at_once_is in is as [is _]. right. eauto.
  - destruct (phase_of s c); try discriminate. apply at_once_is in is as [is _].
    destruct (until <=? until0); [left; congruence | right; eauto].
  - destruct (phase_of s c); try (left; congruence). right. eauto.
Qed.

(* What each step does to the phases and to the grants. *)
Record goes_on (s : state) (e : event) (s' : state) : Prop := {
  next_moment : moment_now s' = S (moment_now s);
  grants_stay : forall g, In g (grants s) -> In g (grants s');
  keeps_holding : forall c old, phase_of s c = Holding old -> e <> Releases c -> (forall until, e <> Cuts c until) ->
    exists bound, phase_of s' c = Holding bound /\ old <= bound;
}.

Lemma step_goes_on : forall y s e s', step y s e = Some s' -> goes_on s e s'.
Proof.
  intros y s e s' is. unfold step in is. destruct (act y s e) as [u |] eqn:acts; [| discriminate].
  inversion is; subst; clear is.
  enough (all : moment_now u = moment_now s /\ (forall g, In g (grants s) -> In g (grants u)) /\
    forall c old, phase_of s c = Holding old -> e <> Releases c -> (forall until, e <> Cuts c until) ->
    exists bound, phase_of u c = Holding bound /\ old <= bound).
  { destruct all as (same & stay & holds). constructor; cbn; auto. }
  destruct e; cbn [act] in acts; cbv zeta in acts;
    repeat match type of acts with
           | match ?p with _ => _ end = _ => destruct p eqn:?; try discriminate
           end;
    try (apply when_some in acts as [_ acts]); try (injection acts as acts); subst u; cbn;
    (split; [reflexivity |]); (split; [cbn; auto |]); intros d old holding not_released not_cut;
    try (exists old; split; [assumption | lia]).
  all: match goal with |- context [update _ ?c _ _] =>
         destruct (Nat.eq_dec d c) as [-> | other];
         [rewrite update_same | rewrite update_other by assumption; exists old; split; [assumption | lia]] end;
       try congruence.
  - replace old with until0 in * by congruence. eexists. split; [reflexivity | lia].
Qed.

(* What servers do changes no holder. *)
Lemma fact_goes_on : forall y s t f s' c old, check_fact y s t f = Some s' -> phase_of s c = Holding old ->
  tell c (Some old) f <> None ->
  exists bound, phase_of s' c = Holding bound /\ old <= bound.
Proof.
  intros y s t f s' c old is holding still.
  assert (by_step : forall e, step y s e = Some s' -> e <> Releases c -> (forall until, e <> Cuts c until) ->
    exists bound, phase_of s' c = Holding bound /\ old <= bound).
  { intros e stepped. apply (keeps_holding _ _ _ (step_goes_on _ _ _ _ stepped)). assumption. }
  assert (same : s' = s -> exists bound, phase_of s' c = Holding bound /\ old <= bound).
  { intros ->. exists old. split; [assumption | lia]. }
  destruct f; cbn [check_fact tell] in is, still; try (apply when_some in is as [_ is]; auto).
  - destruct e; cbn [is_servers] in is; try discriminate; eapply by_step; eauto; discriminate.
  - destruct (has_won s c0); [discriminate |]. apply at_once_is in is as [is _]. eapply by_step; eauto; discriminate.
  - destruct (phase_of s c0); try discriminate. apply at_once_is in is as [is _].
    destruct (until <=? until0); [apply same; congruence |]. eapply by_step; eauto; discriminate.
  - destruct (Nat.eqb_spec c0 c) as [-> | other]; [congruence |].
    destruct (phase_of s c0); try (apply same; congruence). eapply by_step; eauto; congruence.
  - destruct (Nat.eqb_spec c0 c) as [-> | other]; [congruence |]. eapply by_step; eauto; congruence.
Qed.

(* The client was told no more than the proof allows. *)
Definition is_told_right (s : state) (known : attempt -> option time) : Prop :=
  forall c until, known c = Some until -> exists bound, phase_of s c = Holding bound /\ until <= bound.

Lemma wins_is : forall y s c t votes confirm until s', step y s (Wins c t votes confirm until) = Some s' ->
  phase_of s' c = Holding until /\
  exists g, In g (grants s') /\ winner g = c /\ fencing_token g = t /\ won_at g = moment_now s.
Proof.
  intros y s c t votes confirm until s' is. unfold step in is. cbn [act] in is. cbv zeta in is.
  destruct (phase_of s c); try discriminate. destruct (pick (log s) votes); [| discriminate].
  destruct confirm as [again |]; [destruct (pick (log s) again); [| discriminate] |];
    (destruct (when _ _) as [u |] eqn:granted; [| discriminate]; apply when_some in granted as [_ ->]; injection is as <-;
     cbn; rewrite update_same; split; [reflexivity |]; eexists; split; [left; reflexivity |]; auto).
Qed.

Lemma told_right_after : forall y s known t f s', is_told_right s known -> check_fact y s t f = Some s' ->
  is_told_right s' (fun c => tell c (known c) f).
Proof.
  intros y s known t f s' right is c until is_known.
  assert (before : known c = Some until -> (forall old, tell c (Some old) f <> None) ->
    exists bound, phase_of s' c = Holding bound /\ until <= bound).
  { intros was still. destruct (right c until was) as (old & holding & least).
    destruct (fact_goes_on _ _ _ _ _ _ _ is holding (still old)) as (bound & ? & ?). exists bound. split; [assumption | lia]. }
  destruct f; cbn [tell] in is_known, before; try (apply before; [assumption | discriminate]).
  - destruct (Nat.eqb_spec c0 c) as [-> | other]; [| apply before; [assumption | discriminate]].
    injection is_known as ->. cbn [check_fact] in is. destruct (has_won s c); [discriminate |].
    apply at_once_is in is as [is _]. apply wins_is in is as [holding _]. exists until. split; [assumption | lia].
  - destruct (Nat.eqb_spec c0 c) as [-> | other]; [| apply before; [assumption | discriminate]].
    injection is_known as ->. cbn [check_fact] in is. destruct (phase_of s c) as [| | old |] eqn:holding; try discriminate.
    apply at_once_is in is as [is _]. destruct (until <=? old) eqn:shorter.
    + injection is as <-. exists old. split; [assumption | lia].
    + unfold step in is. cbn [act] in is. rewrite holding in is.
      destruct (pick (log s) votes); [| discriminate]. destruct (when _ _) as [s'' |] eqn:granted; [| discriminate].
      apply when_some in granted as [_ ->]. injection is as <-.
      exists (Z.max old until). cbn. rewrite update_same. split; [reflexivity | lia].
  - destruct (Nat.eqb_spec c0 c) as [-> | other]; [discriminate |].
    apply before; [assumption |]. intros old. discriminate.
  - destruct (Nat.eqb_spec c0 c) as [-> | other]; [discriminate |].
    apply before; [assumption |]. intros old. discriminate.
Qed.

Lemma check_one_steps : forall w s f s', reachable (system_of w) s -> check_one (sizes_of w) (system_of w) s f = Some s' ->
  reachable (system_of w) s' /\ (moment_now s <= moment_now s')%nat /\ (forall g, In g (grants s) -> In g (grants s')).
Proof.
  intros w s f s' run one. apply check_one_is in one as [_ is].
  apply fact_steps in is as [-> | [e stepped]]; [auto |].
  destruct (step_goes_on _ _ _ _ stepped) as [next stay _].
  split; [eapply and_then; eassumption |]. split; [lia | assumption].
Qed.

(* The exclusion of what is known after some facts, from the real time `since` on, at each time before which no
   server's clock stepped forward for as long as ttl_max. *)
Definition excludes (w : world) (known : attempt -> option time) (since : time) : Prop :=
  forall u, since <= u -> is_calm w (u - longest_ttl w) u = true ->
  forall c d x, believes_by w known u c x -> believes_by w known u d x -> c = d.

Lemma holders_exclude : forall w s known, is_sound w = true -> reachable (system_of w) s -> is_told_right s known ->
  excludes w known (now (system_of w) s).
Proof.
  intros w s known ok run right u later calm c d x believes_c believes_d.
  assert (holds : forall e, believes_by w known u e x -> has_lock_until (system_of w) s u e x).
  { intros e (until & told_e & valid & of_e). destruct (right e until told_e) as (bound & holding & most).
    pose proof (client_clock_grows w ok e _ _ later).
    split; [split; [unfold inside; rewrite holding; apply Z.ltb_lt; lia | assumption] |]. exists bound. split; [assumption | lia]. }
  destruct (is_sound_parts w ok) as (_ & _ & _ & _ & _ & _ & fast & _).
  apply (exclusion_between_steps _ (world_is_well_formed w ok) (world_obeys w) (world_clients_run w ok) fast s run u later)
    with x; auto.
  intros b t t' ? ? ?. apply (calm_servers_run w ok _ _ calm b t t'); assumption || lia.
Qed.

Lemma excludes_less : forall w known known' since since', excludes w known since -> since <= since' ->
  (forall c until, known' c = Some until -> known c = Some until) -> excludes w known' since'.
Proof.
  intros w known known' since since' before later less u after calm c d x (uc & ? & ? & ?) (ud & ? & ? & ?).
  apply (before u ltac:(lia) calm c d x); [exists uc | exists ud]; repeat split; auto.
Qed.

Lemma check_excludes : forall w l s known since s', is_sound w = true -> reachable (system_of w) s ->
  is_told_right s known -> excludes w known since -> since <= now (system_of w) s ->
  follow (sizes_of w) (system_of w) s l = Some s' ->
  excludes w (fun c => fold_left (fun known f => tell c known (fact_of f)) l (known c)) (last (map at_ l) since).
Proof.
  intros w. induction l as [| f l IH]; intros s known since s' ok run right before later is; [exact before |].
  cbn [follow] in is. destruct (check_one (sizes_of w) (system_of w) s f) as [t |] eqn:one; [| discriminate].
  destruct (check_one_steps w s f t run one) as (run' & moments & _).
  pose proof (time_goes_forward _ (world_is_well_formed w ok) _ _ moments) as forward.
  apply check_one_is in one as [on_time fact_is].
  pose proof (told_right_after _ _ _ _ _ _ right fact_is) as right'.
  assert (now_excludes : excludes w (fun c => tell c (known c) (fact_of f)) (at_ f)).
  { destruct (fact_of f) as [e | | | | | c until t' votes confirm | c until began ttl votes | c | c | c] eqn:what; cbn [tell];
      try (eapply excludes_less; [exact before | lia | auto; fail]).
    - cbn [check_fact] in fact_is. destruct (has_won s c); [discriminate |].
      apply at_once_is in fact_is as [_ <-]. apply holders_exclude; assumption.
    - cbn [check_fact] in fact_is. destruct (phase_of s c); try discriminate.
      apply at_once_is in fact_is as [_ <-]. apply holders_exclude; assumption.
    - eapply excludes_less; [exact before | lia |]. intros d until is_known. cbn in is_known.
      destruct (_ =? _)%nat; [discriminate | assumption].
    - eapply excludes_less; [exact before | lia |]. intros d until is_known. cbn in is_known.
      destruct (_ =? _)%nat; [discriminate | assumption]. }
  specialize (IH t (fun c => tell c (known c) (fact_of f)) (at_ f) s' ok run' right' now_excludes).
  cbn [fold_left map]. unfold now in *.
  replace (last (at_ f :: map at_ l) since) with (last (map at_ l) (at_ f)); [apply IH; [lia | assumption] |].
  clear. generalize (at_ f) since. induction l as [| g l IH]; intros a b; [reflexivity |].
  cbn [map last] in *. destruct l as [| h l]; [reflexivity |]. cbn [map] in *. apply IH.
Qed.

Lemma check_app : forall k y l l' s s', follow k y s (l ++ l') = Some s' ->
  exists t, follow k y s l = Some t /\ follow k y t l' = Some s'.
Proof.
  intros k y. induction l as [| f l IH]; intros l' s s' is; [cbn; eauto |].
  cbn [app follow] in *. destruct (check_one k y s f) as [t |]; [eauto | discriminate].
Qed.

(* Whatever a trace says that the checker accepts: at no moment do two clients believe that they have the
   lock on the same resource, unless a server's clock stepped forward within ttl_max before. Moments between
   two facts count too, hence the beginnings l of the trace. *)
Theorem accepted_guarded_traces_exclude : forall w, is_sound w = true ->
  forall l l' s, check w (l ++ l') = Some s ->
  forall u, time_of l <= u -> is_calm w (u - longest_ttl w) u = true ->
  forall c d x, believes w l u c x -> believes w l u d x -> c = d.
Proof.
  intros w ok l l' s accepted. apply check_follows, check_app in accepted as (t & accepted & _).
  apply (check_excludes w l (initial (system_of w)) (fun _ => None) 0 t ok); [constructor | | | | assumption].
  - intros c until known. discriminate.
  - intros u _ _ c d x (until & known & _). discriminate.
  - apply time_is_positive. assumption.
Qed.

(* ---- tokens ------------------------------------------------------------------------------------- *)

Lemma check_steps : forall w l s s', reachable (system_of w) s -> follow (sizes_of w) (system_of w) s l = Some s' ->
  reachable (system_of w) s' /\ (moment_now s <= moment_now s')%nat /\ (forall g, In g (grants s) -> In g (grants s')).
Proof.
  intros w. induction l as [| f l IH]; intros s s' run is; cbn [follow] in is; [inversion is; subst; auto |].
  destruct (check_one (sizes_of w) (system_of w) s f) as [t |] eqn:one; [| discriminate].
  destruct (check_one_steps w s f t run one) as (run' & moments & stay).
  destruct (IH t s' run' is) as (? & ? & ?). split; [assumption |]. split; [lia | auto].
Qed.

Lemma check_is_told_right : forall k y l s known s', is_told_right s known -> follow k y s l = Some s' ->
  is_told_right s' (fun c => fold_left (fun known f => tell c known (fact_of f)) l (known c)).
Proof.
  intros k y. induction l as [| f l IH]; intros s known s' right is; cbn [follow] in is; [inversion is; subst; exact right |].
  destruct (check_one k y s f) as [t |] eqn:one; [| discriminate]. apply check_one_is in one as [_ one].
  exact (IH t _ s' (told_right_after _ _ _ _ _ _ right one) is).
Qed.

(* While a client answers that a lock is held, that some of its validity is left, or what its token is, no
   other one believes that it has it. *)
Theorem accepted_guarded_answers_exclude : forall w, is_sound w = true ->
  forall l u c rest_ms held token l' s,
  check w (l ++ {| at_ := u; fact_of := Says c rest_ms held token |} :: l') = Some s ->
  0 < rest_ms \/ held = true \/ token <> 0 -> is_calm w (u - longest_ttl w) u = true ->
  forall d, believes w l u d (resource_of (system_of w) c) -> c = d.
Proof.
  intros w ok l u c rest_ms held token l' s accepted claims calm d (until & told_d & valid_d & of_d).
  apply check_follows, check_app in accepted as (t & is & rest). cbn [follow] in rest.
  destruct (check_one (sizes_of w) (system_of w) t _) as [t' |] eqn:one; [| discriminate].
  destruct (check_steps w l _ t (at_first _ _) is) as (run & _ & _).
  destruct (check_is_told_right _ _ l _ (fun _ => None) t ltac:(discriminate) is d until told_d) as (bound & holding & least).
  apply check_one_is in one as [at_u fact_is]. cbn [at_ fact_of check_fact] in at_u, fact_is.
  apply when_some in fact_is as [says _]. unfold says_right in says. cbv zeta in says.
  rewrite !andb_true_iff, Z.leb_le in says. destruct says as [[most is_held] tokens].
  set (clock := client_clock (system_of w) c u) in *.
  set (until_c := match phase_of t c with Holding until => until | _ => clock end) in *.
  assert (before : clock < until_c).
  { destruct claims as [some | [-> | other]]; [unfold ms in most; lia | now apply Z.ltb_lt |].
    apply Z.eqb_neq in other. rewrite other in tokens. apply andb_true_iff in tokens as [before _]. now apply Z.ltb_lt. }
  destruct (is_sound_parts w ok) as (_ & _ & _ & _ & _ & _ & fast & _).
  apply (exclusion_between_steps _ (world_is_well_formed w ok) (world_obeys w) (world_clients_run w ok) fast t run u)
    with (resource_of (system_of w) c); [lia | | |].
  - rewrite <- at_u. now apply calm_servers_run.
  - unfold has_lock_until, has_lock, inside. rewrite <- at_u. fold clock. subst until_c.
    destruct (phase_of t c) as [| | bound_c |]; try (now apply Z.lt_irrefl in before).
    split; [split; [now apply Z.ltb_lt | reflexivity] | eauto].
  - unfold has_lock_until, has_lock, inside. rewrite holding, <- at_u.
    split; [split; [apply Z.ltb_lt; lia | assumption] | exists bound; split; [reflexivity | lia]].
Qed.

(* A lock that a client is told is a grant of the proof, of this moment. *)
Lemma won_is_granted : forall k y s f s' c until t votes confirm, fact_of f = Won c until t votes confirm -> check_one k y s f = Some s' ->
  has_won s c = false /\ moment_now s' = S (moment_now s) /\
  exists g, In g (grants s') /\ winner g = c /\ fencing_token g = t /\ won_at g = moment_now s.
Proof.
  intros k y s f s' c until t votes confirm is_won one. apply check_one_is in one as [_ is]. rewrite is_won in is.
  cbn [check_fact] in is. destruct (has_won s c) eqn:first; [discriminate |].
  apply at_once_is in is as [is _]. split; [reflexivity |].
  split; [apply (next_moment _ _ _ (step_goes_on _ _ _ _ is)) |]. apply (wins_is _ _ _ _ _ _ _ _ is).
Qed.

(* Fencing tokens of one resource grow in the order in which clients are told that they have the lock, if no
   server's clock steps forward. *)
Theorem accepted_guarded_traces_grow : forall w, is_sound w = true -> never_steps w = true ->
  forall l f l' f' l'' s, check w (l ++ f :: l' ++ f' :: l'') = Some s ->
  forall c until t votes confirm c' until' t' votes' confirm',
  fact_of f = Won c until t votes confirm -> fact_of f' = Won c' until' t' votes' confirm' ->
  resource_of (system_of w) c = resource_of (system_of w) c' -> t < t'.
Proof.
  intros w ok never l f l' f' l'' s accepted c until t votes confirm c' until' t' votes' confirm' won won' same.
  apply check_follows, check_app in accepted as (s1 & is1 & rest). cbn [follow] in rest.
  destruct (check_one (sizes_of w) (system_of w) s1 f) as [s2 |] eqn:one; [| discriminate].
  apply check_app in rest as (s3 & is3 & rest). cbn [follow] in rest.
  destruct (check_one (sizes_of w) (system_of w) s3 f') as [s4 |] eqn:one'; [| discriminate].
  destruct (check_steps w l _ s1 (at_first _ _) is1) as (run1 & _ & _).
  destruct (check_one_steps w s1 f s2 run1 one) as (run2 & _ & _).
  destruct (check_steps w l' s2 s3 run2 is3) as (run3 & moments & stay).
  destruct (check_one_steps w s3 f' s4 run3 one') as (run4 & _ & stay').
  destruct (won_is_granted _ _ _ _ _ _ _ _ _ _ won one) as (_ & next & g & g_in & winner_g & token_g & at_g).
  destruct (won_is_granted _ _ _ _ _ _ _ _ _ _ won' one') as (first & _ & g' & g'_in & winner_g' & token_g' & at_g').
  assert (differ : winner g <> winner g').
  { intros one_winner. unfold has_won in first.
    assert (existsb (fun g => (winner g =? c')%nat) (grants s3) = true); [| congruence].
    apply existsb_exists. exists g. split; [auto | apply Nat.eqb_eq; congruence]. }
  rewrite <- token_g, <- token_g'.
  apply (tokens_follow_wins _ (world_is_well_formed w ok) (world_obeys w) (world_clocks_run w ok never) s4 run4 g g');
    [auto | assumption | assumption | congruence | lia].
Qed.

(* ---- tokens, whatever the clocks of servers show -------------------------------------------------- *)

(* If the attempt still tries, its round did not begin before the moment m. *)
Definition has_begun_since (m : nat) (c : attempt) (s : state) : Prop :=
  forall began ttl, phase_of s c = Trying began ttl -> (m <= began)%nat.

Lemma begun_since_stays : forall w s f s' m c, (m <= moment_now s)%nat -> has_begun_since m c s ->
  check_one (sizes_of w) (system_of w) s f = Some s' -> has_begun_since m c s'.
Proof.
  intros w s f s' m c past since one. apply check_one_is in one as [_ is].
  apply fact_steps in is as [-> | [e stepped]]; [assumption |]. intros began ttl trying.
  unfold step in stepped. destruct (act _ s e) as [u |] eqn:acts; [| discriminate]. inversion stepped; subst; clear stepped.
  destruct e; cbn [act] in acts; cbv zeta in acts;
    repeat match type of acts with
           | match ?p with _ => _ end = _ => destruct p eqn:?; try discriminate
           end;
    try (apply when_some in acts as [_ acts]); try (injection acts as acts); subst u; cbn in trying;
    try (now apply (since began ttl));
    match type of trying with update _ ?d _ _ = _ =>
      destruct (Nat.eq_dec c d) as [<- | other];
      [rewrite update_same in trying; try congruence; now injection trying as <- <-
      | rewrite update_other in trying by assumption; now apply (since began ttl)] end.
Qed.

Lemma begun_since_follows : forall w l s s' m c, (m <= moment_now s)%nat -> reachable (system_of w) s ->
  has_begun_since m c s -> follow (sizes_of w) (system_of w) s l = Some s' -> has_begun_since m c s'.
Proof.
  intros w. induction l as [| f l IH]; intros s s' m c past run since is; cbn [follow] in is; [now inversion is; subst |].
  destruct (check_one (sizes_of w) (system_of w) s f) as [t |] eqn:one; [| discriminate].
  destruct (check_one_steps w s f t run one) as (run' & moments & _).
  apply (IH t s' m c ltac:(lia) run'); [| assumption]. eapply begun_since_stays; eassumption.
Qed.

Lemma won_began : forall w s f s' c until t votes confirm m, fact_of f = Won c until t votes confirm ->
  has_begun_since m c s -> check_one (sizes_of w) (system_of w) s f = Some s' ->
  exists g, In g (grants s') /\ winner g = c /\ fencing_token g = t /\ (m <= began_at g)%nat.
Proof.
  intros w s f s' c until t votes confirm m is_won since one. apply check_one_is in one as [_ is]. rewrite is_won in is.
  cbn [check_fact] in is. destruct (has_won s c); [discriminate |]. apply at_once_is in is as [is _].
  unfold step in is. cbn [act] in is. cbv zeta in is.
  destruct (phase_of s c) as [| began ttl | |] eqn:trying; try discriminate. destruct (pick (log s) votes); [| discriminate].
  specialize (since began ttl trying).
  destruct confirm as [again |]; [destruct (pick (log s) again); [| discriminate] |];
    (destruct (when _ _) as [u |] eqn:granted; [| discriminate]; apply when_some in granted as [_ ->]; injection is as <-;
     eexists; split; [left; reflexivity | auto]).
Qed.

(* Whatever the clocks of servers show, and so whenever keys end: a lock of an attempt that began after another
   lock was reported has the higher token. *)
Theorem accepted_tokens_grow : forall w, is_sound w = true ->
  forall l f l1 b l2 f' l3 s, check w (l ++ f :: l1 ++ b :: l2 ++ f' :: l3) = Some s ->
  forall c until t votes confirm c' ttl until' t' votes' confirm',
  fact_of f = Won c until t votes confirm -> fact_of b = Happens (Begins c' ttl) ->
  fact_of f' = Won c' until' t' votes' confirm' ->
  resource_of (system_of w) c = resource_of (system_of w) c' -> t < t'.
Proof.
  intros w ok l f l1 b l2 f' l3 s accepted c until t votes confirm c' ttl until' t' votes' confirm' won begins won' same.
  apply check_follows, check_app in accepted as (s1 & is1 & rest). cbn [follow] in rest.
  destruct (check_one (sizes_of w) (system_of w) s1 f) as [s2 |] eqn:one; [| discriminate].
  apply check_app in rest as (s3 & is3 & rest). cbn [follow] in rest.
  destruct (check_one (sizes_of w) (system_of w) s3 b) as [s4 |] eqn:start; [| discriminate].
  apply check_app in rest as (s5 & is5 & rest). cbn [follow] in rest.
  destruct (check_one (sizes_of w) (system_of w) s5 f') as [s6 |] eqn:one'; [| discriminate].
  destruct (check_steps w l _ s1 (at_first _ _) is1) as (run1 & _ & _).
  destruct (check_one_steps w s1 f s2 run1 one) as (run2 & _ & _).
  destruct (check_steps w l1 s2 s3 run2 is3) as (run3 & moments & stay).
  destruct (check_one_steps w s3 b s4 run3 start) as (run4 & past & stay4).
  destruct (check_steps w l2 s4 s5 run4 is5) as (run5 & _ & stay5).
  destruct (check_one_steps w s5 f' s6 run5 one') as (run6 & _ & stay6).
  destruct (won_is_granted _ _ _ _ _ _ _ _ _ _ won one) as (_ & next & g & g_in & winner_g & token_g & at_g).
  assert (idle : has_begun_since (moment_now s3) c' s3).
  { intros began ttl' trying. pose proof (proj2 (check_one_is _ _ _ _ _ start)) as is. rewrite begins in is.
    cbn [check_fact is_servers] in is. unfold step in is. cbn [act] in is. now rewrite trying in is. }
  pose proof (begun_since_stays w s3 b s4 _ c' (le_n _) idle start) as since.
  pose proof (begun_since_follows w l2 s4 s5 _ c' past run4 since is5) as since5.
  destruct (won_began w s5 f' s6 c' until' t' votes' confirm' _ won' since5 one') as (g' & g'_in & winner_g' & token_g' & began).
  rewrite <- token_g, <- token_g'.
  apply (tokens_grow _ (world_is_well_formed w ok) (world_obeys w) s6 run6 g g'); [auto 6 | assumption | | | lia].
  - right. destruct (world_clients_run w ok). auto.
  - unfold stripe_for. congruence.
Qed.
