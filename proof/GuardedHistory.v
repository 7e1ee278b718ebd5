(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode, first part: what can be said of a history of observations, without any clock.

   A body is a server process together with its data. A process that loses its data is another body from
   then on, and so is a promoted replica. So a body never loses anything; what may happen instead is
   that a member gets a new body while the former one dies, or lives on. A body has the rank of the
   incarnation that its record claims. Two bodies of one process may have the same rank.

   All that clients and agents know they know from observations: an answer of an intact body, under the
   nonce of its record. So an observation shows what that record said at that moment (`knew`: for each
   member the rank of the newest incarnation), and the fences before and after it. Votes, extensions,
   confirmations, reads of records and reads of fences are observations.

   A moment is the number of a step of the world. Guarded.v proves that what happens in guarded mode
   gives lawful histories. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs.
Import ListNotations.
Open Scope Z_scope.

Definition node := nat.     (* a member of the quorum *)
Definition body := nat.
Definition attempt := nat.  (* one try of a lock: the requests that carry one token *)
Definition stripe := nat.
Definition rank := nat.     (* the order of incarnations: number, then run_id *)

(* Why a body was observed. `began` is the moment at which the client read its clock for this round. *)
Inductive purpose :=
| Votes (c : attempt) (began : nat) (ttl : Z) (t : Z) (* for the proposal t: the fence is raised to t *)
| Extends (c : attempt) (began : nat) (ttl : Z)
| Confirms (c : attempt)
| Is_read.

Record seen := {
  of_body : body;
  moment : nat;
  knew : node -> rank;
  before : stripe -> Z;
  after : stripe -> Z;
  why : purpose;
}.

(* How a body became intact: it was registered at one moment at a majority, and much later the fences
   were read from a majority. A body of the first members has no birth. *)
Record birth := {
  registered_at : nat;
  registered_by : list seen;
  reads : list seen;
  installed_at : nat;
}.

Section History.
Variable members : nat.
Variable member_of : body -> node.
Variable rank_of : body -> rank.

Definition member (o : seen) : node := member_of (of_body o).

(* ---- views ------------------------------------------------------------------------------------- *)

(* Observations of a majority of the members, one each. No body among them is superseded by what the
   others' records say. Only such a set of votes, reads or registrations counts. *)
Record view (l : list seen) : Prop := {
  one_each : NoDup (map member l);
  is_majority : (majority_of members <= length l)%nat;
  not_superseded : forall o o', In o l -> In o' l -> (knew o' (member o) <= rank_of (of_body o))%nat;
}.

Record lawful (log : seen -> Prop) (birth_of : body -> option birth) : Prop := {
  of_members : forall o, log o -> (member o < members)%nat;
  first_have_rank_0 : forall o, log o -> birth_of (of_body o) = None -> rank_of (of_body o) = 0%nat;
  intact_when_seen : forall o i, log o -> birth_of (of_body o) = Some i -> (installed_at i < moment o)%nat;
  (* There was one moment at which a majority knew the new incarnation. *)
  registration : forall b i, birth_of b = Some i -> view (registered_by i) /\
    forall m, In m (registered_by i) ->
      log m /\ moment m = registered_at i /\ (rank_of b <= knew m (member_of b))%nat;
  (* The fences were read after that moment. *)
  reading : forall b i, birth_of b = Some i -> view (reads i) /\
    forall r, In r (reads i) -> log r /\ (registered_at i < moment r < installed_at i)%nat;
  (* What was read was installed: the newest incarnations, and the fences. *)
  installation : forall o i r, log o -> birth_of (of_body o) = Some i -> In r (reads i) ->
    (forall n, (knew r n <= knew o n)%nat) /\ (forall x, after r x <= before o x);
  (* A body forgets nothing. *)
  keeps : forall o o', log o -> log o' -> of_body o = of_body o' -> (moment o < moment o')%nat ->
    (forall n, (knew o n <= knew o' n)%nat) /\ (forall x, after o x <= before o' x);
  never_lowers : forall o x, log o -> before o x <= after o x;
  one_at_a_time : forall o o', log o -> log o' -> of_body o = of_body o' -> moment o = moment o' -> o = o';
  (* Two bodies with one rank are one process: the one had died before the other was registered. *)
  one_after_the_other : forall o o', log o -> log o' -> of_body o <> of_body o' ->
    member o = member o' -> rank_of (of_body o) = rank_of (of_body o') ->
    (exists i, birth_of (of_body o') = Some i /\ (moment o < registered_at i)%nat) \/
    (exists i, birth_of (of_body o) = Some i /\ (moment o' < registered_at i)%nat);
}.

(* ---- majorities meet --------------------------------------------------------------------------- *)

Lemma views_meet : forall v w, view v -> view w ->
  (forall o, In o v -> (member o < members)%nat) -> (forall o, In o w -> (member o < members)%nat) ->
  exists o p, In o v /\ In p w /\ member o = member p.
Proof.
  intros v w view_v view_w in_v in_w.
  destruct (share (seq 0 members) (map member v) (map member w)) as (n & of_v & of_w); try apply one_each; auto.
  - intros n n_in. apply in_map_iff in n_in as (o & <- & o_in). apply in_seq. specialize (in_v o o_in). lia.
  - intros n n_in. apply in_map_iff in n_in as (o & <- & o_in). apply in_seq. specialize (in_w o o_in). lia.
  - rewrite !map_length, seq_length. pose proof (is_majority v view_v). pose proof (is_majority w view_w).
    pose proof (majority_is_more_than_half members). lia.
  - apply in_map_iff in of_v as (o & ? & ?), of_w as (p & ? & ?). exists o, p. repeat split; congruence.
Qed.

Section Lawful.
Variable log : seen -> Prop.
Variable birth_of : body -> option birth.
Hypothesis law : lawful log birth_of.

(* A view of what really happened. *)
Definition view_of_log (l : list seen) : Prop := view l /\ forall o, In o l -> log o.

Lemma views_of_log_meet : forall v w, view_of_log v -> view_of_log w ->
  exists o p, In o v /\ In p w /\ member o = member p.
Proof.
  intros v w [view_v of_v] [view_w of_w]. apply views_meet; auto; intros; apply (of_members _ _ law); auto.
Qed.

Lemma registered_view : forall b i, birth_of b = Some i -> view_of_log (registered_by i).
Proof. intros b i born. destruct (registration _ _ law b i born) as [? each]. split; [assumption |]. apply each. Qed.

Lemma read_view : forall b i, birth_of b = Some i -> view_of_log (reads i).
Proof. intros b i born. destruct (reading _ _ law b i born) as [? each]. split; [assumption |]. apply each. Qed.

(* A body above another one's rank was born. *)
Lemma higher_is_born : forall o, log o -> (0 < rank_of (of_body o))%nat -> exists i, birth_of (of_body o) = Some i.
Proof.
  intros o of_log high. destruct (birth_of (of_body o)) eqn:born; [eauto |].
  pose proof (first_have_rank_0 _ _ law o of_log born). lia.
Qed.

Lemma registered_before_seen : forall o i, log o -> birth_of (of_body o) = Some i ->
  (registered_at i < moment o)%nat.
Proof.
  intros o i of_log born. pose proof (intact_when_seen _ _ law o i of_log born).
  destruct (registered_view _ _ born) as [[_ _ _] _].
  destruct (reading _ _ law _ _ born) as [view_r each]. pose proof (is_majority _ view_r) as many.
  destruct (reads i) as [| r l] eqn:rs.
  - simpl in many. unfold majority_of in many. lia.
  - destruct (each r (or_introl eq_refl)). lia.
Qed.

(* ---- a registration is known ever after -------------------------------------------------------- *)

(* Each view after the moment at which a body was registered knows of it, or of a later one. *)
Definition known_after (b : body) (k : nat) (v : list seen) : Prop :=
  exists o, In o v /\ (rank_of b <= knew o (member_of b))%nat.

Lemma registration_is_known : forall b i v, birth_of b = Some i -> view_of_log v ->
  (forall o, In o v -> (registered_at i <= moment o)%nat) ->
  exists o, In o v /\ (rank_of b <= knew o (member_of b))%nat.
Proof.
  (* By induction on the moment of the registration, and then on how late the view is. *)
  enough (claim : forall r b i, birth_of b = Some i -> registered_at i = r ->
    forall k v, view_of_log v -> (forall o, In o v -> (r <= moment o < k)%nat) ->
    exists o, In o v /\ (rank_of b <= knew o (member_of b))%nat).
  { intros b i v born of_log late.
    assert (bound : exists k, forall o, In o v -> (moment o < k)%nat).
    { clear. induction v as [| o v [k IH]]; [exists 0%nat; simpl; tauto |].
      exists (Nat.max (S (moment o)) k). intros p [<- | p_in]; [lia |]. specialize (IH p p_in). lia. }
    destruct bound as [k bound]. apply (claim (registered_at i) b i born eq_refl k v of_log).
    intros o o_in. split; auto. }
  intros r. induction r as [r earlier] using lt_wf_ind. intros b i born at_r k.
  induction k as [k earlier_view] using lt_wf_ind. intros v of_log late.
  destruct (views_of_log_meet _ _ (registered_view b i born) of_log) as (m & w & m_in & w_in & same).
  destruct (registration _ _ law b i born) as [view_m each_m].
  destruct (each_m m m_in) as (log_m & at_m & knows_b).
  pose proof (proj2 of_log w w_in) as log_w. pose proof (late w w_in) as late_w.
  (* A body that was registered at r or later has read, after r, from a view that knew b. *)
  assert (younger : forall j, birth_of (of_body w) = Some j -> (r <= registered_at j)%nat ->
    exists o, In o v /\ (rank_of b <= knew o (member_of b))%nat).
  { intros j born_w not_before.
    destruct (reading _ _ law _ j born_w) as [view_r each_r].
    pose proof (intact_when_seen _ _ law w j log_w born_w).
    destruct (earlier_view (installed_at j) ltac:(lia) (reads j) (read_view _ _ born_w)) as (o & o_in & knows_o).
    { intros o o_in. destruct (each_r o o_in). lia. }
    exists w. split; [assumption |].
    destruct (installation _ _ law w j o log_w born_w o_in) as [copied _]. specialize (copied (member_of b)). lia. }
  destruct (Nat.eq_dec (of_body m) (of_body w)) as [one | two].
  { (* the same body has not forgotten *)
    exists w. split; [assumption |].
    destruct (Nat.eq_dec (moment m) (moment w)) as [at_once | apart].
    - now rewrite <- (one_at_a_time _ _ law m w log_m log_w one at_once).
    - destruct (keeps _ _ law m w log_m log_w one ltac:(lia)) as [kept _]. specialize (kept (member_of b)). lia. }
  destruct (lt_eq_lt_dec (rank_of (of_body m)) (rank_of (of_body w))) as [[lower | equal] | higher].
  - (* w is a later incarnation of this member *)
    destruct (higher_is_born w log_w ltac:(lia)) as [j born_w].
    destruct (le_lt_dec r (registered_at j)) as [? | before_r]; [eauto |].
    exfalso. destruct (earlier (registered_at j) before_r _ j born_w eq_refl (S r) (registered_by i))
      as (o & o_in & knows_w).
    + eapply registered_view; eassumption.
    + intros o o_in. destruct (each_m o o_in) as (_ & -> & _). lia.
    + pose proof (not_superseded _ view_m m o m_in o_in). unfold member in *. rewrite same in *. lia.
  - (* one process: the former body had died *)
    destruct (one_after_the_other _ _ law m w log_m log_w two same equal) as [(j & born_w & ?) | (j & born_m & ?)].
    + apply (younger j born_w). lia.
    + pose proof (registered_before_seen m j log_m born_m). lia.
  - (* w is a former incarnation: the view would know that *)
    exfalso. destruct (higher_is_born m log_m ltac:(lia)) as [j born_m].
    pose proof (registered_before_seen m j log_m born_m).
    destruct (earlier (registered_at j) ltac:(lia) _ j born_m eq_refl k v of_log) as (o & o_in & knows_m).
    + intros o o_in. specialize (late o o_in). lia.
    + pose proof (not_superseded _ (proj1 of_log) w o w_in o_in). unfold member in *. rewrite same in *. lia.
Qed.

(* What a body replaces: an incarnation below its own, or a body of the same process that has died. *)
Definition replaces (b : body) (i : birth) (o : seen) : Prop :=
  member_of b = member o /\
  ((rank_of (of_body o) < rank_of b)%nat \/ (moment o < registered_at i)%nat).

(* So a view with an observation of a replaced body began before the registration. *)
Lemma view_is_older : forall b i v o, birth_of b = Some i -> view_of_log v -> In o v ->
  replaces b i o -> exists p, In p v /\ (moment p < registered_at i)%nat.
Proof.
  intros b i v o born of_log o_in [same [lower | died]]; [| eauto].
  destruct (Exists_dec (fun p => (moment p < registered_at i)%nat) v (fun p => lt_dec _ _)) as [found | none].
  - apply Exists_exists in found. exact found.
  - exfalso. destruct (registration_is_known b i v born of_log) as (p & p_in & knows_b).
    + intros p p_in. destruct (le_lt_dec (registered_at i) (moment p)); [assumption |].
      exfalso. apply none. apply Exists_exists. eauto.
    + pose proof (not_superseded _ (proj1 of_log) o p o_in p_in). rewrite same in *. lia.
Qed.

(* Two observations of one member: of one body, or the one body replaces the other. *)
Lemma same_or_replaced : forall o p, log o -> log p -> member o = member p ->
  of_body o = of_body p \/
  (exists i, birth_of (of_body p) = Some i /\ replaces (of_body p) i o) \/
  (exists i, birth_of (of_body o) = Some i /\ replaces (of_body o) i p).
Proof.
  intros o p log_o log_p same. destruct (Nat.eq_dec (of_body o) (of_body p)) as [| two]; [auto | right].
  destruct (lt_eq_lt_dec (rank_of (of_body o)) (rank_of (of_body p))) as [[lower | equal] | higher].
  - left. destruct (higher_is_born p log_p ltac:(lia)) as [i born]. exists i. repeat split; auto.
  - destruct (one_after_the_other _ _ law o p log_o log_p two same equal) as [(i & born & ?) | (i & born & ?)];
      [left | right]; exists i; repeat split; auto.
  - right. destruct (higher_is_born o log_o ltac:(lia)) as [i born]. exists i. repeat split; auto.
Qed.

(* ---- a fence that a majority accepted is found ever after -------------------------------------- *)

(* A proposal t for stripe x that is complete at the moment k: `proof` is a view of bodies that had
   raised their fence to t by then. If one of these bodies is replaced, the fences for its successor are
   read after k. *)
Record complete (x : stripe) (t : Z) (k : nat) (proof : list seen) : Prop := {
  proof_of_log : view_of_log proof;
  had_raised : forall u, In u proof -> exists a, log a /\ of_body a = of_body u /\
    (moment a <= k)%nat /\ after a x = t;
  successors_read_later : forall u b i, In u proof -> birth_of b = Some i -> replaces b i u ->
    forall r, In r (reads i) -> (k < moment r)%nat;
}.

(* Each view after a complete proposal finds its fence, or a higher one. *)
Lemma fence_is_found : forall x t k proof v, complete x t k proof -> view_of_log v ->
  (forall o, In o v -> (k < moment o)%nat) -> exists o, In o v /\ t <= before o x.
Proof.
  intros x t k proof v done.
  enough (claim : forall l v, view_of_log v -> (forall o, In o v -> (k < moment o < l)%nat) ->
    exists o, In o v /\ t <= before o x).
  { intros of_log late.
    assert (bound : exists l, forall o, In o v -> (moment o < l)%nat).
    { clear. induction v as [| o v [l IH]]; [exists 0%nat; simpl; tauto |].
      exists (Nat.max (S (moment o)) l). intros p [<- | p_in]; [lia |]. specialize (IH p p_in). lia. }
    destruct bound as [l bound]. apply (claim l v of_log). auto. }
  clear v. intros l. induction l as [l earlier] using lt_wf_ind. intros v of_log late.
  destruct (views_of_log_meet _ _ (proof_of_log _ _ _ _ done) of_log) as (u & o & u_in & o_in & same).
  destruct (had_raised _ _ _ _ done u u_in) as (a & log_a & one & by_k & raised).
  pose proof (proj2 (proof_of_log _ _ _ _ done) u u_in) as log_u.
  pose proof (proj2 of_log o o_in) as log_o. pose proof (late o o_in).
  destruct (same_or_replaced u o log_u log_o same) as [same_body | [(i & born & newer) | (i & born & newer)]].
  - exists o. split; [assumption |].
    destruct (keeps _ _ law a o log_a log_o ltac:(congruence) ltac:(lia)) as [_ kept]. specialize (kept x). lia.
  - exists o. split; [assumption |].
    pose proof (intact_when_seen _ _ law o i log_o born).
    destruct (reading _ _ law _ i born) as [_ each].
    destruct (earlier (installed_at i) ltac:(lia) (reads i) (read_view _ _ born)) as (r & r_in & found).
    + intros r r_in. split; [eapply (successors_read_later _ _ _ _ done); eauto | now apply each].
    + destruct (installation _ _ law o i r log_o born r_in) as [_ copied]. specialize (copied x).
      pose proof (never_lowers _ _ law r x (proj2 (read_view _ _ born) r r_in)). lia.
  - (* the view would know that o's body was replaced *)
    exfalso. pose proof (registered_before_seen a i log_a ltac:(now rewrite one)).
    destruct (view_is_older _ i v o born of_log o_in newer) as (p & p_in & older).
    specialize (late p p_in). lia.
Qed.

(* A vote raises the fence strictly. *)
Definition strict_vote (x : stripe) (t : Z) (a : seen) : Prop := before a x < t /\ after a x = t.

(* A proposal whose votes all come after another one was complete is higher. *)
Lemma later_is_higher : forall x t k proof t' votes, complete x t k proof ->
  view_of_log votes -> (forall a, In a votes -> strict_vote x t' a /\ (k < moment a)%nat) -> t < t'.
Proof.
  intros x t k proof t' votes done of_log each.
  destruct (fence_is_found x t k proof votes done of_log) as (a & a_in & found).
  - intros a a_in. now apply each.
  - destruct (each a a_in) as [[raised _] _]. lia.
Qed.

(* A vote of a body that replaced one of a complete proposal is higher: its fences were read later. *)
Lemma successor_is_higher : forall x t k proof t' u b i a, complete x t k proof -> In u proof ->
  birth_of b = Some i -> replaces b i u -> log a -> of_body a = b -> strict_vote x t' a -> t < t'.
Proof.
  intros x t k proof t' u b i a done u_in born newer log_a <- [raised _].
  destruct (fence_is_found x t k proof (reads i) done (read_view _ _ born)) as (r & r_in & found).
  - intros r r_in. eapply (successors_read_later _ _ _ _ done); eauto.
  - destruct (installation _ _ law a i r log_a born r_in) as [_ copied]. specialize (copied x).
    pose proof (never_lowers _ _ law r x (proj2 (read_view _ _ born) r r_in)). lia.
Qed.

(* Two complete proposals of different attempts differ: `mine` are the votes for the one, `others` those
   for the other. *)
Lemma complete_differ : forall x t k proof t' k' proof' (mine others : seen -> Prop),
  complete x t k proof -> complete x t' k' proof' ->
  (forall u, In u proof -> exists a, log a /\ of_body a = of_body u /\ mine a /\ strict_vote x t a) ->
  (forall u, In u proof' -> exists a, log a /\ of_body a = of_body u /\ others a /\ strict_vote x t' a) ->
  (forall a, mine a -> others a -> False) ->
  t <> t'.
Proof.
  intros x t k proof t' k' proof' mine others done done' votes votes' apart.
  destruct (views_of_log_meet _ _ (proof_of_log _ _ _ _ done) (proof_of_log _ _ _ _ done'))
    as (u & u' & u_in & u_in' & same).
  destruct (votes u u_in) as (a & log_a & one & of_mine & raised).
  destruct (votes' u' u_in') as (a' & log_a' & one' & of_others & raised').
  pose proof (proj2 (proof_of_log _ _ _ _ done) u u_in) as log_u.
  pose proof (proj2 (proof_of_log _ _ _ _ done') u' u_in') as log_u'.
  destruct (same_or_replaced u u' log_u log_u' same) as [same_body | [(i & born & newer) | (i & born & newer)]].
  - unfold strict_vote in *.
    destruct (lt_eq_lt_dec (moment a) (moment a')) as [[first | at_once] | second].
    + destruct (keeps _ _ law a a' log_a log_a' ltac:(congruence) first) as [_ kept]. specialize (kept x). lia.
    + assert (a = a') by (apply (one_at_a_time _ _ law); auto; congruence). subst a'.
      exfalso. eapply apart; eauto.
    + destruct (keeps _ _ law a' a log_a' log_a ltac:(congruence) second) as [_ kept]. specialize (kept x). lia.
  - pose proof (successor_is_higher x t k proof t' u _ i a' done u_in born newer log_a' one' raised'). lia.
  - pose proof (successor_is_higher x t' k' proof' t u' _ i a done' u_in' born newer log_a one raised). lia.
Qed.

End Lawful.
(* ---- how a lawful history grows ---------------------------------------------------------------- *)

(* By an observation of a body, which has forgotten nothing. *)
Lemma lawful_add : forall l birth_of new, lawful (fun o => In o l) birth_of ->
  (member new < members)%nat ->
  (birth_of (of_body new) = None -> rank_of (of_body new) = 0%nat) ->
  (forall i, birth_of (of_body new) = Some i -> (installed_at i < moment new)%nat /\
    forall r, In r (reads i) -> (forall n, (knew r n <= knew new n)%nat) /\ (forall x, after r x <= before new x)) ->
  (forall x, before new x <= after new x) ->
  (forall p, In p l -> of_body p = of_body new -> (moment p < moment new)%nat /\
    (forall n, (knew p n <= knew new n)%nat) /\ (forall x, after p x <= before new x)) ->
  (forall p, In p l -> of_body p <> of_body new -> member p = member new ->
    rank_of (of_body p) = rank_of (of_body new) ->
    (exists i, birth_of (of_body new) = Some i /\ (moment p < registered_at i)%nat) \/
    (exists i, birth_of (of_body p) = Some i /\ (moment new < registered_at i)%nat)) ->
  lawful (fun o => In o (new :: l)) birth_of.
Proof.
  intros l birth_of new law exists_ low born raises older apart. constructor.
  - intros o [<- | o_in]; [assumption | now apply (of_members _ _ law)].
  - intros o [<- | o_in]; [assumption | now apply (first_have_rank_0 _ _ law)].
  - intros o i [<- | o_in] b; [now apply born | now apply (intact_when_seen _ _ law)].
  - intros b i b_born. destruct (registration _ _ law b i b_born) as [? each]. split; [assumption |].
    intros m m_in. destruct (each m m_in) as (? & ? & ?). simpl. auto.
  - intros b i b_born. destruct (reading _ _ law b i b_born) as [? each]. split; [assumption |].
    intros r r_in. destruct (each r r_in) as (? & ?). simpl. auto.
  - intros o i r [<- | o_in] b r_in; [now apply (proj2 (born i b)) | now apply (installation _ _ law o i r)].
  - intros o p [<- | o_in] [<- | p_in] same less.
    + lia.
    + destruct (older p p_in (eq_sym same)). lia.
    + now apply older.
    + now apply (keeps _ _ law).
  - intros o x [<- | o_in]; [apply raises | now apply (never_lowers _ _ law)].
  - intros o p [<- | o_in] [<- | p_in] same at_once.
    + reflexivity.
    + destruct (older p p_in (eq_sym same)). lia.
    + destruct (older o o_in same). lia.
    + now apply (one_at_a_time _ _ law).
  - intros o p [<- | o_in] [<- | p_in] differ same equal.
    + congruence.
    + destruct (apart p p_in ltac:(congruence) ltac:(congruence) ltac:(congruence)); auto.
    + destruct (apart o o_in differ same equal); auto.
    + now apply (one_after_the_other _ _ law).
Qed.

(* By the birth of a body that was never observed. *)
Lemma lawful_born : forall l birth_of birth_of' b i, lawful (fun o => In o l) birth_of ->
  birth_of' b = Some i -> (forall b', b' <> b -> birth_of' b' = birth_of b') ->
  (forall o, In o l -> of_body o <> b) ->
  view (registered_by i) ->
  (forall m, In m (registered_by i) -> In m l /\ moment m = registered_at i /\ (rank_of b <= knew m (member_of b))%nat) ->
  view (reads i) ->
  (forall r, In r (reads i) -> In r l /\ (registered_at i < moment r < installed_at i)%nat) ->
  lawful (fun o => In o l) birth_of'.
Proof.
  intros l birth_of birth_of' b i law now_born others unseen view_m each_m view_r each_r.
  assert (same : forall o, In o l -> birth_of' (of_body o) = birth_of (of_body o)) by auto.
  constructor; try apply law.
  - intros o o_in. rewrite (same o o_in). now apply (first_have_rank_0 _ _ law).
  - intros o j o_in. rewrite (same o o_in). now apply (intact_when_seen _ _ law).
  - intros b' j born. destruct (Nat.eq_dec b' b) as [-> | other].
    + rewrite now_born in born. inversion born; subst. auto.
    + rewrite others in born by assumption. now apply (registration _ _ law).
  - intros b' j born. destruct (Nat.eq_dec b' b) as [-> | other].
    + rewrite now_born in born. inversion born; subst. auto.
    + rewrite others in born by assumption. eapply (reading _ _ law); eassumption.
  - intros o j r o_in. rewrite (same o o_in). now apply (installation _ _ law).
  - intros o p o_in p_in. rewrite (same o o_in), (same p p_in). now apply (one_after_the_other _ _ law).
Qed.

End History.
