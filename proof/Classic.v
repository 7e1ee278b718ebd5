(* SPDX-License-Identifier: BSD-2-Clause

   Classic mode: the system, its assumptions by name, and mutual exclusion.

   A system is a choice of everything that the proof does not fix: lists of nodes, clocks, tokens, and
   which rules servers and clients follow. The theorem holds for every system that satisfies all
   assumptions; ClassicNeeds.v shows for each assumption a system without it in which two clients
   hold the lock.

   Where the library is stricter than this system, the theorem still covers it: what happens here
   includes what happens there.
   - A request is never consumed. It may reach a server at any time, in any order, often, or never.
     That is delay, loss, duplication and every timeout. The same holds for a vote and its client.
   - A client that crashes is a client that does nothing more, and keeps what it believes.
   - A server that restarts with its data is a server that answers nothing for a while.
   - A key that has ended may be removed at once, later, or never. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs.
Import ListNotations.
Open Scope Z_scope.

Definition time := Z.      (* real time, or the reading of a clock *)
Definition node := nat.    (* an entry in a client's list of nodes *)
Definition server := nat.  (* a Redis process with its data *)
Definition attempt := nat. (* one try of a lock: the requests that carry one token *)
Definition resource := nat.
Definition token := nat.

Record system := {
  list_of : attempt -> list node;       (* the configured nodes of the client of this attempt *)
  reaches : node -> server -> bool;     (* a request to this node may reach this server *)
  resources_of : attempt -> list resource;
  token_of : attempt -> token;
  (* What a clock shows at a real time. The wall clock of a server, the CLOCK_BOOTTIME of a client. *)
  client_clock : attempt -> time -> time;
  server_clock : server -> time -> time;
  (* The errors of the clocks. Each server's clock has a rate of its own. *)
  client_ppm : Z; server_ppm : server -> Z; client_error : Z; server_error : Z;
  (* The allowance for drift that is in force for the lease of this attempt: the configured one, or a
     larger one where the clocks were measured to need it. It never shrinks. *)
  drift_ppm : attempt -> Z; drift_fixed : Z;
  (* The nodes whose votes this lease needs: their clocks, as measured, do with its allowance. *)
  steady : attempt -> node -> bool;
  (* The settings of the library. *)
  quorum : nat -> nat;                  (* how many votes of so many configured nodes win *)
  (* The rules of servers: true as in Redis and in the scripts of src/node. *)
  keeps_data : bool;
  sets_if_absent : bool;                (* SET ... NX *)
  extend_compares : bool;
  extend_never_shortens : bool;
  delete_compares : bool;
  (* The rules of clients: true as in src/core. *)
  counts_own_round : bool;              (* only votes for the requests of this round count *)
  reads_clock_first : bool;             (* validity counts from before the requests were sent *)
  release_ends : bool;                  (* a client that releases believes no longer that it holds *)
}.

(* ---- states ------------------------------------------------------------------------------------ *)

Record key := { owner : token; ends : time (* by the clock of its server *) }.

Inductive action := Set_ | Extend | Delete.

(* A request belongs to a round: the client read its clock at the real time `began`, then sent it. *)
Record request := { what : action; by_ : attempt; began : time; ttl : Z }.
Record vote := { voter : node; answered : request }. (* the node granted the request *)

Inductive phase :=
| Idle
| Trying (began : time) (ttl : Z)
| Holding (until : time) (* validity_end, by the client's clock *)
| Over.                  (* released, lost, cancelled or failed *)

Record state := {
  now : time;
  keys : server -> resource -> option key;
  phase_of : attempt -> phase;
  sent : list request;
  votes : list vote;
}.

Definition initial : state :=
  {| now := 0; keys := fun _ _ => None; phase_of := fun _ => Idle; sent := []; votes := [] |}.

(* The client of this attempt is inside validity. The library reports validity_end - now while that
   is above 0, and nothing otherwise. *)
Definition inside (y : system) (s : state) (c : attempt) : bool :=
  match phase_of s c with
  | Holding until => client_clock y c (now s) <? until
  | _ => false
  end.

(* ---- servers ----------------------------------------------------------------------------------- *)

Definition is_owned (t : token) (k : option key) : bool :=
  match k with Some k => owner k =? t | None => false end%nat.
Definition is_absent (k : option key) : bool := match k with Some _ => false | None => true end.

(* What a server does with a request, at a reading of its clock: its new keys, and whether it granted.
   Several resources are one script: all or nothing. *)
Definition serve (y : system) (clock : time) (r : request) (held : resource -> option key)
  : (resource -> option key) * bool :=
  let mine := resources_of y (by_ r) in
  let t := token_of y (by_ r) in
  match what r with
  | Set_ =>
      if negb (sets_if_absent y) || forallb (fun x => is_absent (held x)) mine
      then (fun x => if among mine x then Some {| owner := t; ends := clock + ttl r |} else held x, true)
      else (held, false)
  | Extend =>
      if forallb (fun x => if extend_compares y then is_owned t (held x) else negb (is_absent (held x))) mine
      then (fun x => match held x with
                     | Some k => if among mine x
                                 then Some {| owner := owner k;
                                              ends := if extend_never_shortens y
                                                      then Z.max (ends k) (clock + ttl r)
                                                      else clock + ttl r |}
                                 else Some k
                     | None => None
                     end, true)
      else (held, false)
  | Delete =>
      (fun x => if among mine x && (negb (delete_compares y) || is_owned t (held x)) then None else held x,
       false)
  end.

(* ---- clients ----------------------------------------------------------------------------------- *)

Definition action_eqb (a b : action) : bool :=
  match a, b with Set_, Set_ | Extend, Extend | Delete, Delete => true | _, _ => false end.
Definition request_eqb (a b : request) : bool :=
  action_eqb (what a) (what b) && (by_ a =? by_ b)%nat && (began a =? began b) && (ttl a =? ttl b).

Definition counts (y : system) (r : request) (v : vote) : bool :=
  steady y (by_ r) (voter v) &&
  if counts_own_round y then request_eqb (answered v) r else (by_ (answered v) =? by_ r)%nat.

(* The configured nodes that voted, less those whose clocks would need a larger allowance. *)
Definition voters (y : system) (s : state) (r : request) : list node :=
  filter (fun n => existsb (fun v => (voter v =? n)%nat && counts y r v) (votes s)) (list_of y (by_ r)).

Definition majority (y : system) (s : state) (r : request) : bool :=
  (quorum y (length (list_of y (by_ r))) <=? length (voters y s r))%nat.

(* src/core: t1 + ttl - drift, where t1 was read before anything was sent. *)
Definition validity_end (y : system) (s : state) (r : request) : time :=
  client_clock y (by_ r) (if reads_clock_first y then began r else now s)
  + ttl r - drift_of (drift_ppm y (by_ r)) (drift_fixed y) (ttl r).

(* ---- what may happen --------------------------------------------------------------------------- *)

Inductive event :=
| Time_passes (span : Z)
| Begins (c : attempt) (ttl : Z)                     (* reads its clock, sends SET to all nodes *)
| Arrives (n : node) (m : server) (r : request)      (* a request to node n reaches server m *)
| Ends (m : server) (x : resource)                   (* a key that has ended is removed *)
| Loses (m : server) (x : resource)                  (* restart, FLUSHALL, eviction, failover *)
| Wins (c : attempt) (until : time)
| Begins_extension (c : attempt) (ttl : Z)
| Extended (c : attempt) (began : time) (ttl : Z) (until : time)
| Repairs (c : attempt) (ttl : Z)                    (* SET NX again, where the key is absent; also of one
                                                        that has won and was not told yet *)
| Cuts (c : attempt) (until : time)                  (* hold_max, the loss margin, and the like *)
| Releases (c : attempt).                            (* also: gives up, is cancelled, has lost; or an operator
                                                        breaks the lock, and the client does not know it *)


Definition with_now s t := {| now := t; keys := keys s; phase_of := phase_of s; sent := sent s; votes := votes s |}.
Definition with_keys s m held :=
  {| now := now s; keys := update (keys s) m held; phase_of := phase_of s; sent := sent s; votes := votes s |}.
Definition with_phase s c p :=
  {| now := now s; keys := keys s; phase_of := update (phase_of s) c p; sent := sent s; votes := votes s |}.
Definition with_sent s r :=
  {| now := now s; keys := keys s; phase_of := phase_of s; sent := r :: sent s; votes := votes s |}.
Definition with_vote s v :=
  {| now := now s; keys := keys s; phase_of := phase_of s; sent := sent s; votes := v :: votes s |}.

Definition set_of c t ttl := {| what := Set_; by_ := c; began := t; ttl := ttl |}.
Definition extend_of c t ttl := {| what := Extend; by_ := c; began := t; ttl := ttl |}.
Definition delete_of c := {| what := Delete; by_ := c; began := 0; ttl := 0 |}.

(* None: this cannot happen now. *)
Definition step (y : system) (s : state) (e : event) : option state :=
  match e with
  | Time_passes span => if 0 <=? span then Some (with_now s (now s + span)) else None
  | Begins c ttl =>
      match phase_of s c with
      | Idle => Some (with_sent (with_phase s c (Trying (now s) ttl)) (set_of c (now s) ttl))
      | _ => None
      end
  | Arrives n m r =>
      if reaches y n m && existsb (request_eqb r) (sent s) then
        let (held, granted) := serve y (server_clock y m (now s)) r (keys s m) in
        let s' := with_keys s m held in
        Some (if granted then with_vote s' {| voter := n; answered := r |} else s')
      else None
  | Ends m x =>
      match keys s m x with
      | Some k => if ends k <=? server_clock y m (now s)
                  then Some (with_keys s m (update (keys s m) x None)) else None
      | None => None
      end
  | Loses m x => if keeps_data y then None else Some (with_keys s m (update (keys s m) x None))
  | Wins c until =>
      match phase_of s c with
      | Trying t ttl =>
          let r := set_of c t ttl in
          if majority y s r && (until <=? validity_end y s r)
          then Some (with_phase s c (Holding until)) else None
      | _ => None
      end
  | Begins_extension c ttl =>
      match phase_of s c with Holding _ | Over => Some (with_sent s (extend_of c (now s) ttl)) | _ => None end
  | Extended c t ttl until =>
      match phase_of s c with
      | Holding old =>
          let r := extend_of c t ttl in
          (* A lost lock stays lost: the extension counts only inside the validity that it extends.
             Exclusion does not need this; `lost_stays_lost` does. *)
          if majority y s r && (t <=? now s) && (client_clock y c (now s) <? old) && (until <=? validity_end y s r)
          then Some (with_phase s c (Holding (Z.max old until))) else None
      | _ => None
      end
  | Repairs c ttl =>
      match phase_of s c with
      | Trying _ _ | Holding _ | Over => Some (with_sent s (set_of c (now s) ttl))
      | Idle => None
      end
  | Cuts c until =>
      match phase_of s c with
      | Holding old => if until <=? old then Some (with_phase s c (Holding until)) else None
      | _ => None
      end
  | Releases c =>
      Some (with_sent (if release_ends y then with_phase s c Over else s) (delete_of c))
  end.

Notation reachable y := (Runs.reachable initial (step y)).
Notation follows y := (Runs.follows (step y)).
Notation run y := (Runs.run (step y)).

(* ---- the assumptions --------------------------------------------------------------------------- *)

Inductive assumption :=
(* of the surroundings: docs/use/safety.md numbers them *)
| Keys_are_kept            (* 1: no loss of data, no eviction *)
| One_server_per_node      (* 2 and 6: no failover to another server, no proxy that switches *)
| Server_clocks_run        (* 3: not stepped forward, and not too fast *)
| Same_nodes               (* 5: all clients have the same list *)
| Client_clocks_run        (* 7: not too slow, and suspension counts *)
(* of the clocks, and of the library's settings *)
| Drift_covers             (* the rate of each node's clock stays below the allowance in force for each
                              lease that needs the node's vote, and what is read of it is as exact *)
(* of the library and of the servers *)
| Majorities_win
| Tokens_are_unique
| Sets_if_absent
| Extend_compares
| Extend_never_shortens
| Delete_compares
| Counts_own_round
| Reads_clock_first
| Release_ends.

Definition holds (a : assumption) (y : system) : Prop :=
  match a with
  | Keys_are_kept => keeps_data y = true
  | One_server_per_node => forall n m m', reaches y n m = true -> reaches y n m' = true -> m = m'
  | Server_clocks_run => forall m t t', t <= t' ->
      million * (server_clock y m t' - server_clock y m t)
      <= (million + server_ppm y m) * (t' - t) + million * server_error y
  | Same_nodes => forall c d, list_of y c = list_of y d
  | Client_clocks_run => forall c t t', t <= t' ->
      (million - client_ppm y) * (t' - t) - million * client_error y
      <= million * (client_clock y c t' - client_clock y c t)
  | Drift_covers => forall c n m, steady y c n = true -> reaches y n m = true ->
      drift_covers (drift_ppm y c) (drift_fixed y) (client_ppm y) (server_ppm y m) (client_error y) (server_error y)
  | Majorities_win => forall nodes, (nodes < 2 * quorum y nodes)%nat
  | Tokens_are_unique => forall c d, token_of y c = token_of y d -> c = d
  | Sets_if_absent => sets_if_absent y = true
  | Extend_compares => extend_compares y = true
  | Extend_never_shortens => extend_never_shortens y = true
  | Delete_compares => delete_compares y = true
  | Counts_own_round => counts_own_round y = true
  | Reads_clock_first => reads_clock_first y = true
  | Release_ends => release_ends y = true
  end.

Definition sound (y : system) : Prop := forall a, holds a y.

(* The client of this attempt is inside the validity of a lock on this resource. *)
Definition has_lock (y : system) (s : state) (c : attempt) (x : resource) : Prop :=
  inside y s c = true /\ In x (resources_of y c).

(* ---- small lemmas about the definitions -------------------------------------------------------- *)

Lemma action_eqb_eq : forall a b, action_eqb a b = true -> a = b.
Proof. now intros [] []. Qed.

Lemma request_eqb_eq : forall a b, request_eqb a b = true -> a = b.
Proof.
  intros [] [] same. unfold request_eqb in same. simpl in same.
  repeat rewrite andb_true_iff in same. destruct same as (((same & ?) & ?) & ?).
  apply action_eqb_eq in same. f_equal; auto using Z.eqb_eq, Nat.eqb_eq;
    [now apply Nat.eqb_eq | now apply Z.eqb_eq | now apply Z.eqb_eq].
Qed.

Lemma was_sent : forall r l, existsb (request_eqb r) l = true -> In r l.
Proof. intros r l found. apply existsb_exists in found as (z & ? & same). apply request_eqb_eq in same. now subst. Qed.

(* ---- the invariant ----------------------------------------------------------------------------- *)

Section Exclusion.
Variable y : system.
Hypothesis assumed : sound y.

(* Since the moment `set` this server had the key of attempt c, with `ttl` to live from then on. It
   has it still, or the key has ended by the server's clock. *)
Definition kept (s : state) (m : server) (c : attempt) (set : time) (ttl : Z) (x : resource) : Prop :=
  (exists k, keys s m x = Some k /\ owner k = token_of y c /\ server_clock y m set + ttl <= ends k)
  \/ (exists ended, set <= ended <= now s /\ server_clock y m set + ttl <= server_clock y m ended).

(* What a vote means, for as long as the attempt is not over. *)
Definition meant (s : state) (v : vote) : Prop :=
  let r := answered v in
  exists m set, reaches y (voter v) m = true /\ began r <= set <= now s /\
    (phase_of s (by_ r) = Over \/
     forall x, In x (resources_of y (by_ r)) -> kept s m (by_ r) set (ttl r) x).

(* Validity rests on a majority of votes for one round. *)
Definition proven (s : state) (c : attempt) (until : time) : Prop :=
  exists r, by_ r = c /\ began r <= now s /\ majority y s r = true /\ until <= validity_end y s r.

Record invariant (s : state) : Prop := {
  requests_are_past : forall r, In r (sent s) -> what r <> Delete -> began r <= now s;
  deletes_come_last : forall r, In r (sent s) -> what r = Delete -> phase_of s (by_ r) = Over;
  attempts_are_past : forall c t ttl, phase_of s c = Trying t ttl -> t <= now s;
  votes_are_meant : forall v, In v (votes s) -> meant s v;
  holders_are_proven : forall c until, phase_of s c = Holding until -> proven s c until;
}.

(* ---- nothing that is known of votes is lost ---------------------------------------------------- *)

Lemma validity_end_stays : forall s s' r, validity_end y s r = validity_end y s' r.
Proof.
  intros. unfold validity_end. now rewrite (assumed Reads_clock_first : reads_clock_first y = true).
Qed.

(* Only what matters of a new state: time went on, votes were added, attempts that are over stay so. *)
Lemma proven_stays : forall s s' c until,
  now s <= now s' -> incl (votes s) (votes s') -> proven s c until -> proven s' c until.
Proof.
  intros s s' c until later more (r & by_c & past & won & bound).
  exists r. repeat split; [assumption | lia | | now rewrite <- (validity_end_stays s)].
  unfold majority in *. rewrite Nat.leb_le in *. etransitivity; [apply won |].
  unfold voters. clear won. induction (list_of y (by_ r)) as [| n l IH]; simpl; [lia |].
  destruct (existsb _ (votes s)) eqn:voted.
  - assert (still : existsb (fun v => (voter v =? n)%nat && counts y r v) (votes s') = true).
    { apply existsb_exists. apply existsb_exists in voted as (v & ? & ?). exists v. auto. }
    rewrite still. simpl. lia.
  - destruct (existsb _ (votes s')); simpl; lia.
Qed.

Lemma kept_stays : forall s s' m c set ttl x,
  now s <= now s' -> keys s' m x = keys s m x -> kept s m c set ttl x -> kept s' m c set ttl x.
Proof.
  intros s s' m c set ttl x later same [has | (ended & ? & ?)].
  - left. now rewrite same.
  - right. exists ended. split; [lia | assumption].
Qed.

(* A server that changes the keys of an attempt does so for a reason: it extends them, they have ended,
   or the attempt is over. *)
Definition changes_well (s s' : state) : Prop :=
  forall m x k, keys s m x = Some k ->
    (exists k', keys s' m x = Some k' /\ owner k' = owner k /\ ends k <= ends k') \/
    ends k <= server_clock y m (now s) \/
    exists c, owner k = token_of y c /\ phase_of s' c = Over.

Lemma meant_stays : forall s s' v,
  now s <= now s' -> (forall c, phase_of s c = Over -> phase_of s' c = Over) ->
  changes_well s s' -> meant s v -> meant s' v.
Proof.
  intros s s' v later over well (m & set & at_m & past & what_for).
  exists m, set. split; [assumption |]. split; [lia |].
  destruct what_for as [? | all_kept]; [left; auto |].
  destruct (phase_of s' (by_ (answered v))) eqn:p; auto; right; intros x mine;
    (destruct (all_kept x mine) as [(k & has & own & lives) | (ended & ? & ?)];
     [| right; exists ended; split; [lia | assumption]]);
    (destruct (well m x k has) as [(k' & has' & own' & longer) | [was | (c & of_c & is_over)]];
     [left; exists k'; split; [assumption |]; split; [congruence | lia]
     | right; exists (now s); split; [lia | lia]
     | assert (by_ (answered v) = c) by (apply (assumed Tokens_are_unique); congruence); congruence]).
Qed.

(* ---- each rule of a server changes keys well --------------------------------------------------- *)

Lemma serve_changes_well : forall s m r held granted,
  invariant s -> In r (sent s) ->
  serve y (server_clock y m (now s)) r (keys s m) = (held, granted) ->
  changes_well s (with_keys s m held).
Proof.
  intros s m r held granted inv sent_r served m' x k has.
  destruct (Nat.eq_dec m' m) as [-> | other].
  2: { left. exists k. simpl. rewrite update_other by assumption. repeat split; [assumption | lia]. }
  simpl. rewrite update_same. unfold serve in served.
  rewrite (assumed Sets_if_absent : sets_if_absent y = true),
    (assumed Extend_compares : extend_compares y = true),
    (assumed Extend_never_shortens : extend_never_shortens y = true),
    (assumed Delete_compares : delete_compares y = true) in served.
  simpl in served. destruct (what r) eqn:kind.
  - (* SET NX: it was granted only where the key is absent *)
    destruct (forallb _ _) eqn:free in served; inversion served; subst; clear served.
    + destruct (among (resources_of y (by_ r)) x) eqn:mine.
      * rewrite forallb_forall in free. apply among_in in mine. apply free in mine.
        rewrite has in mine. discriminate.
      * left. exists k. repeat split; [assumption | lia].
    + left. exists k. repeat split; [assumption | lia].
  - (* the owner stays, and the end is not earlier *)
    left. destruct (forallb _ _) in served; inversion served; subst; clear served.
    + rewrite has. destruct (among _ x); eexists; (split; [reflexivity |]); simpl; split; auto; lia.
    + exists k. repeat split; [assumption | lia].
  - (* only an attempt that is over sends a delete, and it deletes its own keys alone *)
    inversion served; subst; clear served.
    destruct (among (resources_of y (by_ r)) x && is_owned (token_of y (by_ r)) (keys s m x)) eqn:deleted.
    + right; right. exists (by_ r). apply andb_true_iff in deleted as [_ own]. rewrite has in own.
      split; [now apply Nat.eqb_eq in own | now apply (deletes_come_last s inv)].
    + left. exists k. repeat split; [assumption | lia].
Qed.

(* A vote is cast at a moment when the server has the key, with the TTL to live. *)
Lemma serve_grants : forall s n m r held,
  invariant s -> In r (sent s) -> reaches y n m = true ->
  serve y (server_clock y m (now s)) r (keys s m) = (held, true) ->
  meant (with_keys s m held) {| voter := n; answered := r |}.
Proof.
  intros s n m r held inv sent_r at_m served. exists m, (now s). split; [assumption |].
  unfold serve in served.
  rewrite (assumed Sets_if_absent : sets_if_absent y = true),
    (assumed Extend_compares : extend_compares y = true),
    (assumed Extend_never_shortens : extend_never_shortens y = true) in served. simpl in served.
  simpl. split.
  { split; [| lia]. apply (requests_are_past s inv); [assumption |]. intros deletes.
    rewrite deletes in served. discriminate. }
  right. intros x mine. left. simpl. rewrite update_same.
  pose proof (proj2 (among_in _ _) mine) as found.
  destruct (what r) eqn:kind; [| | discriminate].
  - destruct (forallb _ _) in served; inversion served; subst; clear served.
    rewrite found. eexists. split; [reflexivity |]. simpl. split; [reflexivity | lia].
  - destruct (forallb _ _) eqn:all in served; inversion served; subst; clear served.
    rewrite forallb_forall in all. specialize (all x mine).
    destruct (keys s m x) as [k |]; [| discriminate].
    rewrite found. eexists. split; [reflexivity |]. simpl. split; [now apply Nat.eqb_eq | lia].
Qed.

(* ---- the invariant holds ----------------------------------------------------------------------- *)

Lemma same_keys_change_well : forall s s', keys s' = keys s -> changes_well s s'.
Proof. intros s s' same m x k has. left. exists k. rewrite same. repeat split; [assumption | lia]. Qed.

Lemma over_stays : forall s c p,
  phase_of s c <> Over -> forall d, phase_of s d = Over -> phase_of (with_phase s c p) d = Over.
Proof. intros s c p not d over. simpl. destruct (Nat.eq_dec d c); [congruence |]. now rewrite update_other. Qed.

(* A client that is not over moves to another phase. *)
Lemma invariant_phase : forall s c p,
  invariant s -> phase_of s c <> Over ->
  (forall t ttl, p = Trying t ttl -> t <= now s) ->
  (forall until, p = Holding until -> proven s c until) ->
  invariant (with_phase s c p).
Proof.
  intros s c p inv not trying holding. constructor; simpl.
  - apply (requests_are_past s inv).
  - intros r sent_r deletes. pose proof (deletes_come_last s inv r sent_r deletes).
    destruct (Nat.eq_dec (by_ r) c); [congruence |]. now rewrite update_other.
  - intros d t ttl at_d. destruct (Nat.eq_dec d c) as [-> | other].
    + rewrite update_same in at_d. eauto.
    + rewrite update_other in at_d by assumption. eapply (attempts_are_past s inv); eauto.
  - intros v voted. eapply meant_stays; [| | | now apply (votes_are_meant s inv)]; simpl; [lia | | ].
    + now apply over_stays.
    + now apply same_keys_change_well.
  - intros d until at_d. destruct (Nat.eq_dec d c) as [-> | other].
    + rewrite update_same in at_d. eapply proven_stays; [| | eauto]; simpl; [lia | apply incl_refl].
    + rewrite update_other in at_d by assumption.
      eapply proven_stays; [| | eapply (holders_are_proven s inv); eauto]; simpl; [lia | apply incl_refl].
Qed.

Lemma invariant_sent : forall s r,
  invariant s -> what r <> Delete -> began r = now s -> invariant (with_sent s r).
Proof.
  intros s r inv kind began_now. constructor; simpl.
  - intros z [<- | ?] ?; [lia | now apply (requests_are_past s inv)].
  - intros z [<- | ?] ?; [contradiction | now apply (deletes_come_last s inv)].
  - apply (attempts_are_past s inv).
  - apply (votes_are_meant s inv).
  - apply (holders_are_proven s inv).
Qed.

Lemma invariant_over : forall s c, invariant s -> invariant (with_sent (with_phase s c Over) (delete_of c)).
Proof.
  intros s c inv.
  assert (over : forall d, phase_of s d = Over -> update (phase_of s) c Over d = Over).
  { intros d ?. destruct (Nat.eq_dec d c) as [-> |]; [apply update_same | now rewrite update_other]. }
  constructor; simpl.
  - intros r [<- | ?] ?; [simpl in *; contradiction | now apply (requests_are_past s inv)].
  - intros r [<- | ?] ?; [apply update_same | apply over; now apply (deletes_come_last s inv)].
  - intros d t ttl at_d. destruct (Nat.eq_dec d c) as [-> | other].
    + rewrite update_same in at_d. discriminate.
    + rewrite update_other in at_d by assumption. eapply (attempts_are_past s inv); eauto.
  - intros v voted. eapply meant_stays; [| | | now apply (votes_are_meant s inv)]; simpl; [lia | assumption |].
    now apply same_keys_change_well.
  - intros d until at_d. destruct (Nat.eq_dec d c) as [-> | other].
    + rewrite update_same in at_d. discriminate.
    + rewrite update_other in at_d by assumption.
      eapply proven_stays; [| | eapply (holders_are_proven s inv); eauto]; simpl; [lia | apply incl_refl].
Qed.

(* A server changes its keys well, and perhaps votes. *)
Lemma invariant_keys : forall s m held,
  invariant s -> changes_well s (with_keys s m held) -> invariant (with_keys s m held).
Proof.
  intros s m held inv well. constructor; simpl.
  - apply (requests_are_past s inv).
  - apply (deletes_come_last s inv).
  - apply (attempts_are_past s inv).
  - intros v voted. eapply meant_stays; [| | exact well | now apply (votes_are_meant s inv)]; simpl; [lia | auto].
  - intros c until at_c.
    eapply proven_stays; [| | eapply (holders_are_proven s inv); eauto]; simpl; [lia | apply incl_refl].
Qed.

Lemma invariant_vote : forall s v, invariant s -> meant s v -> invariant (with_vote s v).
Proof.
  intros s v inv meaning. constructor; simpl.
  - apply (requests_are_past s inv).
  - apply (deletes_come_last s inv).
  - apply (attempts_are_past s inv).
  - intros w [<- | ?]; [exact meaning | now apply (votes_are_meant s inv)].
  - intros c until at_c.
    eapply proven_stays; [| | eapply (holders_are_proven s inv); eauto]; simpl; [lia | intros ? ?; now right].
Qed.

Lemma invariant_time : forall s t, invariant s -> now s <= t -> invariant (with_now s t).
Proof.
  intros s t inv later. constructor; simpl.
  - intros r ? ?. pose proof (requests_are_past s inv r). intuition lia.
  - apply (deletes_come_last s inv).
  - intros c t' ttl at_c. pose proof (attempts_are_past s inv c t' ttl at_c). lia.
  - intros v voted. eapply meant_stays; [exact later | | | now apply (votes_are_meant s inv)]; simpl; auto.
    now apply same_keys_change_well.
  - intros c until at_c.
    eapply proven_stays; [exact later | | eapply (holders_are_proven s inv); eauto]; simpl; apply incl_refl.
Qed.

(* The key that has ended is removed. *)
Lemma ending_changes_well : forall s m x k,
  keys s m x = Some k -> ends k <= server_clock y m (now s) ->
  changes_well s (with_keys s m (update (keys s m) x None)).
Proof.
  intros s m x k has ended m' x' k' has'. simpl.
  destruct (Nat.eq_dec m' m) as [-> |].
  2: { left. exists k'. rewrite update_other by assumption. repeat split; [assumption | lia]. }
  rewrite update_same. destruct (Nat.eq_dec x' x) as [-> |].
  - right; left. congruence.
  - left. exists k'. rewrite update_other by assumption. repeat split; [assumption | lia].
Qed.

Lemma invariant_initial : invariant initial.
Proof. constructor; simpl; try contradiction; discriminate. Qed.

Lemma invariant_step : forall s e s', invariant s -> step y s e = Some s' -> invariant s'.
Proof.
  intros s e s' inv happens. destruct e; simpl in happens.
  - (* Time_passes *)
    destruct (0 <=? span) eqn:forward; inversion happens; subst.
    apply invariant_time; [assumption | lia].
  - (* Begins *)
    destruct (phase_of s c) eqn:at_c; inversion happens; subst.
    apply invariant_sent; [| discriminate | reflexivity].
    apply invariant_phase; [assumption | congruence | | discriminate].
    intros ? ? same. inversion same. lia.
  - (* Arrives *)
    destruct (reaches y n m && existsb (request_eqb r) (sent s)) eqn:arrives; [| discriminate].
    apply andb_true_iff in arrives as [at_m sent_r]. apply was_sent in sent_r.
    destruct (serve _ _ r (keys s m)) as [held granted] eqn:served. inversion happens; subst; clear happens.
    pose proof (serve_changes_well s m r held granted inv sent_r served) as well.
    pose proof (invariant_keys s m held inv well) as inv'.
    destruct granted; [| assumption].
    apply invariant_vote; [assumption | now apply serve_grants].
  - (* Ends *)
    destruct (keys s m x) as [k |] eqn:has; [| discriminate].
    destruct (ends k <=? _) eqn:ended; inversion happens; subst; clear happens.
    apply invariant_keys; [assumption |]. eapply ending_changes_well; [eassumption | lia].
  - (* Loses *)
    rewrite (assumed Keys_are_kept : keeps_data y = true) in happens. discriminate.
  - (* Wins *)
    destruct (phase_of s c) as [| t ttl | |] eqn:at_c; try discriminate.
    destruct (majority _ _ _) eqn:won; [| discriminate].
    destruct (until <=? _) eqn:bound; inversion happens; subst; clear happens.
    apply invariant_phase; [assumption | congruence | discriminate |].
    intros u same. inversion same; subst. exists (set_of c t ttl). repeat split; [| assumption | lia].
    now apply (attempts_are_past s inv c t ttl).
  - (* Begins_extension *)
    destruct (phase_of s c) eqn:at_c; inversion happens; subst;
      (apply invariant_sent; [assumption | discriminate | reflexivity]).
  - (* Extended *)
    destruct (phase_of s c) as [| | old |] eqn:at_c; try discriminate.
    destruct (majority _ _ _) eqn:won; [| discriminate].
    destruct (began0 <=? now s) eqn:past; [| discriminate]. simpl in happens.
    destruct (client_clock y c (now s) <? old); [| discriminate]. simpl in happens.
    destruct (until <=? _) eqn:bound; inversion happens; subst; clear happens.
    apply invariant_phase; [assumption | congruence | discriminate |].
    intros u same. inversion same; subst; clear same.
    destruct (Z.max_spec old until) as [[_ ->] | [_ ->]].
    + exists (extend_of c began0 ttl0). repeat split; [simpl; lia | assumption | lia].
    + now apply (holders_are_proven s inv).
  - (* Repairs *)
    destruct (phase_of s c) eqn:at_c; inversion happens; subst;
      (apply invariant_sent; [assumption | discriminate | reflexivity]).
  - (* Cuts *)
    destruct (phase_of s c) as [| | old |] eqn:at_c; try discriminate.
    destruct (until <=? old) eqn:shorter; inversion happens; subst; clear happens.
    apply invariant_phase; [assumption | congruence | discriminate |].
    intros u same. inversion same; subst.
    destruct (holders_are_proven s inv c old at_c) as (r & ? & ? & ? & ?).
    exists r. repeat split; try assumption. lia.
  - (* Releases *)
    rewrite (assumed Release_ends : release_ends y = true) in happens. inversion happens; subst.
    now apply invariant_over.
Qed.

Lemma invariant_reachable : forall s, reachable y s -> invariant s.
Proof. induction 1; [apply invariant_initial | eauto using invariant_step]. Qed.

(* ---- exclusion --------------------------------------------------------------------------------- *)

(* Each voter of a client that is inside validity has its key, now. *)
Lemma voters_have_the_key : forall s c until r n x,
  invariant s -> phase_of s c = Holding until -> client_clock y c (now s) < until ->
  by_ r = c -> until <= validity_end y s r -> In x (resources_of y c) ->
  existsb (fun v => (voter v =? n)%nat && counts y r v) (votes s) = true ->
  exists m k, reaches y n m = true /\ keys s m x = Some k /\ owner k = token_of y c.
Proof.
  intros s c until r n x inv at_c valid by_c bound mine voted.
  apply existsb_exists in voted as (v & in_votes & of_n). apply andb_true_iff in of_n as [is_n counted].
  apply Nat.eqb_eq in is_n. unfold counts in counted. apply andb_true_iff in counted as [covered counted].
  rewrite (assumed Counts_own_round : counts_own_round y = true) in counted.
  apply request_eqb_eq in counted.
  destruct (votes_are_meant s inv v in_votes) as (m & set & at_m & past & meaning).
  rewrite counted in *. rewrite by_c in *. rewrite is_n in at_m.
  destruct meaning as [over | all_kept]; [congruence |].
  destruct (all_kept x mine) as [(k & has & own & _) | (ended & between & lived)]; [eauto 6 |].
  (* the key cannot have ended: validity would have ended first *)
  exfalso. unfold validity_end in bound.
  rewrite (assumed Reads_clock_first : reads_clock_first y = true), by_c in bound.
  pose proof (validity_ends_first (drift_ppm y c) (drift_fixed y) (client_ppm y) (server_ppm y m)
    (client_error y) (server_error y) (ttl r) (began r) set ended (now s)
    (client_clock y c) (server_clock y m)) as first.
  assert (server_clock y m ended - server_clock y m set < ttl r); [| lia].
  apply first; try lia.
  - apply (assumed Drift_covers c n m); congruence.
  - apply (assumed Server_clocks_run). lia.
  - apply (assumed Client_clocks_run). lia.
Qed.

Lemma one_holder : forall s c d x, reachable y s -> has_lock y s c x -> has_lock y s d x -> c = d.
Proof.
  intros s c d x reached [in_c of_c] [in_d of_d].
  pose proof (invariant_reachable s reached) as inv. unfold inside in in_c, in_d.
  destruct (phase_of s c) as [| | until_c |] eqn:at_c; try discriminate.
  destruct (phase_of s d) as [| | until_d |] eqn:at_d; try discriminate.
  rewrite Z.ltb_lt in in_c, in_d.
  destruct (holders_are_proven s inv c until_c at_c) as (rc & by_c & past_c & won_c & bound_c).
  destruct (holders_are_proven s inv d until_d at_d) as (rd & by_d & past_d & won_d & bound_d).
  unfold majority in won_c, won_d. rewrite Nat.leb_le in won_c, won_d.
  pose proof (assumed Same_nodes (by_ rd) (by_ rc)) as same. simpl in same.
  unfold voters in won_c, won_d. rewrite same in won_d.
  pose proof (assumed Majorities_win (length (list_of y (by_ rc)))).
  destruct (selections_meet node _ _ (list_of y (by_ rc)) ltac:(
    eapply Nat.lt_le_trans; [| apply Nat.add_le_mono; [exact won_c | exact won_d]]; simpl in *; lia))
    as (n & _ & voted_c & voted_d).
  destruct (voters_have_the_key s c until_c rc n x inv at_c in_c by_c bound_c of_c voted_c)
    as (m & k & at_m & has & own).
  destruct (voters_have_the_key s d until_d rd n x inv at_d in_d by_d bound_d of_d voted_d)
    as (m' & k' & at_m' & has' & own').
  pose proof (assumed One_server_per_node n m m' at_m at_m'). subst m'.
  apply (assumed Tokens_are_unique). congruence.
Qed.

End Exclusion.

(* ---- the theorems ------------------------------------------------------------------------------ *)

(* At no moment are two clients inside the validity of a lock on the same resource. *)
Theorem exclusion : forall y, (forall a, holds a y) ->
  forall s, reachable y s ->
  forall c d x, has_lock y s c x -> has_lock y s d x -> c = d.
Proof. intros y assumed s reached c d x. now apply one_holder. Qed.

(* ---- a lost lock stays lost -------------------------------------------------------------------- *)

Definition client_clocks_go_forward (y : system) : Prop :=
  forall c t t', t <= t' -> client_clock y c t <= client_clock y c t'.

(* It won, at this moment or before. *)
Definition has_won (s : state) (c : attempt) : Prop :=
  (exists until, phase_of s c = Holding until) \/ phase_of s c = Over.

Lemma inside_has_won : forall y s c, inside y s c = true -> has_won s c.
Proof. intros y s c valid. unfold inside in valid. unfold has_won. destruct (phase_of s c); try discriminate. eauto. Qed.

Lemma after_a_step : forall y s e s' c, client_clocks_go_forward y ->
  step y s e = Some s' -> has_won s c ->
  has_won s' c /\ (inside y s c = false -> inside y s' c = false).
Proof.
  intros y s e s' c forward happens won.
  assert (other : forall d p, d <> c -> has_won (with_phase s d p) c /\
    (inside y s c = false -> inside y (with_phase s d p) c = false)).
  { intros d p differ. unfold inside, has_won in *. simpl. now rewrite update_other by congruence. }
  unfold has_won in won.
  destruct e; simpl in happens.
  - (* Time_passes *)
    destruct (0 <=? span) eqn:sign; inversion happens; subst. split; [assumption |].
    unfold inside. simpl. destruct (phase_of s c); auto. rewrite !Z.ltb_ge.
    pose proof (forward c (now s) (now s + span)). lia.
  - (* Begins *)
    destruct (phase_of s c0) eqn:at_0; inversion happens; subst.
    destruct (Nat.eq_dec c0 c) as [-> | differ]; [| now apply other].
    destruct won as [[? ?] | ?]; congruence.
  - (* Arrives *)
    destruct (reaches y n m && _); [| discriminate].
    destruct (serve _ _ _ _) as [k granted]. inversion happens; subst. destruct granted; now split.
  - (* Ends *)
    destruct (keys s m x); [| discriminate]. destruct (ends k <=? _); inversion happens; subst. now split.
  - (* Loses *)
    destruct (keeps_data y); inversion happens; subst. now split.
  - (* Wins *)
    destruct (phase_of s c0) eqn:at_0; try discriminate.
    destruct (majority _ _ _ && _); inversion happens; subst.
    destruct (Nat.eq_dec c0 c) as [-> | differ]; [| now apply other].
    destruct won as [[? ?] | ?]; congruence.
  - (* Begins_extension *)
    destruct (phase_of s c0); inversion happens; subst; now split.
  - (* Extended *)
    destruct (phase_of s c0) as [| | old |] eqn:at_0; try discriminate.
    destruct (majority _ _ _); [| discriminate]. destruct (_ <=? now s); [| discriminate].
    simpl in happens. destruct (client_clock y c0 (now s) <? old) eqn:valid; [| discriminate].
    simpl in happens. destruct (until <=? _); inversion happens; subst.
    destruct (Nat.eq_dec c0 c) as [-> | differ]; [| now apply other].
    unfold has_won, inside. simpl. rewrite update_same, at_0. split; [eauto | congruence].
  - (* Repairs *)
    destruct (phase_of s c0); inversion happens; subst; now split.
  - (* Cuts *)
    destruct (phase_of s c0) as [| | old |] eqn:at_0; try discriminate.
    destruct (until <=? old) eqn:shorter; inversion happens; subst.
    destruct (Nat.eq_dec c0 c) as [-> | differ]; [| now apply other].
    unfold has_won, inside. simpl. rewrite update_same, at_0. split; [eauto |]. rewrite !Z.ltb_ge. lia.
  - (* Releases *)
    destruct (release_ends y); inversion happens; subst; [| now split].
    destruct (Nat.eq_dec c0 c) as [-> | differ]; [| exact (other c0 Over differ)].
    unfold has_won, inside. simpl. rewrite update_same. auto.
Qed.

Lemma after_a_run : forall y s t c, client_clocks_go_forward y -> follows y s t -> has_won s c ->
  has_won t c /\ (inside y s c = false -> inside y t c = false).
Proof.
  intros y s t c forward run won. induction run as [| t e u run [won' outside] happens]; [now split |].
  destruct (after_a_step y t e u c forward happens won'). split; auto.
Qed.

(* After the win, a client that is outside validity once never comes back. *)
Theorem lost_stays_lost : forall y, client_clocks_go_forward y ->
  forall s t c, follows y s t -> has_won s c -> inside y s c = false -> inside y t c = false.
Proof. intros y forward s t c run won. now apply after_a_run. Qed.

(* A client that has the lock at two moments had it all the time between them, and no other client
   had it, however often the lock was extended. *)
Theorem nobody_between : forall y, (forall a, holds a y) -> client_clocks_go_forward y ->
  forall s t u c d x, reachable y s -> follows y s t -> follows y t u ->
  has_lock y s c x -> has_lock y u c x -> has_lock y t d x -> d = c.
Proof.
  intros y assumed forward s t u c d x reached to_t to_u at_first at_last between.
  apply (exclusion y assumed t) with x; [eauto using follows_reachable | assumption |].
  split; [| apply at_first].
  destruct (inside y t c) eqn:valid; [reflexivity |].
  destruct (after_a_run y s t c forward to_t (inside_has_won y s c (proj1 at_first))) as [won _].
  pose proof (lost_stays_lost y forward t u c to_u won valid) as lost.
  destruct at_last as [at_last _]. congruence.
Qed.
