(* SPDX-License-Identifier: BSD-2-Clause

   Guarded mode: the system, the order of fencing tokens, and mutual exclusion.

   Bodies, ranks, observations and views are explained in GuardedHistory.v. Keys, votes and time are
   those of Classic.v, with these differences:
   - Every step has a number, its moment, and happens at the real time `time_at` of that number.
   - Which requests are under way is not recorded. Any request that a client may ever have sent can
     arrive at any moment after it.
   - An attempt is its token, and has one resource. The rules of servers are not switched off.
   - The steps of an agent are here as its requests, and as two moments: the registration is complete,
     and the fences are installed. *)
Require Import ZArith Lia List Bool Arith.
From Redlock Require Import Arithmetic Runs GuardedHistory.
Import ListNotations.
Open Scope Z_scope.

Definition time := Z.
Definition resource := nat.
Definition agent := nat.

(* The rules of docs/inside/guarded.md that GuardedRuns.v drops, one at a time. *)
Inductive rule :=
| Only_intact_vote            (* a body that recovers does not vote *)
| Raises_strictly             (* ZADD GT CH *)
| Drops_superseded            (* a vote of a superseded body does not count *)
| Registers                   (* a majority knows the new incarnation before the wait *)
| Waits                       (* for ttl_max and drift *)
| Reads_after_the_wait
| Reads_from_a_majority
| Installs_incarnations       (* those that were read *)
| Installs_fences.            (* those that were read *)

Record system := {
  members : nat;                       (* bodies 0 to members - 1 are the first ones *)
  member_of : body -> node;
  rank_of : body -> rank;
  resource_of : attempt -> resource;
  stripe_of : resource -> stripe;
  time_at : nat -> time;
  client_clock : attempt -> time -> time;
  agent_clock : agent -> time -> time;
  server_clock : body -> time -> time;
  client_ppm : Z; server_ppm : Z; agent_ppm : Z; client_error : Z; server_error : Z; agent_error : Z;
  (* The least allowance that is in force for any lease, and the one by which a recovering node waits. *)
  drift_ppm : Z; drift_fixed : Z;
  ttl_max : Z;
  drops : rule -> bool;                (* which rules are not followed: none, for the theorems *)
}.

Definition unless (y : system) (r : rule) (b : bool) : bool := drops y r || b.

Definition stripe_for (y : system) (c : attempt) : stripe := stripe_of y (resource_of y c).

(* ---- states ------------------------------------------------------------------------------------ *)

Record key := { owner : attempt; ends : time (* by the server's clock *) }.

Inductive life :=
| Unborn
| Recovering  (* has no record of its own life, or one that says recovering: does not vote *)
| Intact
| Dead.

Inductive phase :=
| Idle
| Trying (began : nat) (ttl : Z)
| Holding (until : time)
| Over.

Record registration_of := { complete_at : nat; complete_by : list seen }.

(* A lock that was acquired. *)
Record grant := {
  winner : attempt;
  fencing_token : Z;
  began_at : nat;
  won_at : nat;
  won_ttl : Z;
  won_by : list seen;                   (* the votes *)
  confirmed_by : option (list seen);    (* the confirm round, if it was asked for *)
}.

Record state := {
  moment_now : nat;
  life_of : body -> life;
  claims : list body;                   (* the bodies that are not unborn *)
  claimed_at : body -> nat;
  knows : body -> node -> rank;         (* what the record says of incarnations *)
  fence : body -> stripe -> Z;
  keys : body -> resource -> option key;
  registered : body -> option registration_of;
  birth_of : body -> option birth;
  log : list seen;
  sets : list (body * attempt * nat * Z); (* a SET was granted there, in the round that began then *)
  phase_of : attempt -> phase;
  grants : list grant;
}.

Definition is_first (y : system) (b : body) : bool := (b <? members y)%nat.

Definition initial (y : system) : state := {|
  moment_now := 0;
  life_of := fun b => if is_first y b then Intact else Unborn;
  claims := seq 0 (members y);
  claimed_at := fun _ => 0%nat;
  knows := fun _ _ => 0%nat;
  fence := fun _ _ => 0;
  keys := fun _ _ => None;
  registered := fun _ => None;
  birth_of := fun _ => None;
  log := [];
  sets := [];
  phase_of := fun _ => Idle;
  grants := [];
|}.

Definition now (y : system) (s : state) : time := time_at y (moment_now s).

(* ---- changing a state -------------------------------------------------------------------------- *)

Definition with_life s b l := {| moment_now := moment_now s; life_of := update (life_of s) b l; claims := claims s;
  claimed_at := claimed_at s; knows := knows s; fence := fence s; keys := keys s; registered := registered s;
  birth_of := birth_of s; log := log s; sets := sets s; phase_of := phase_of s; grants := grants s |}.
Definition with_body s b known fences held := {| moment_now := moment_now s; life_of := life_of s; claims := claims s;
  claimed_at := claimed_at s; knows := update (knows s) b known; fence := update (fence s) b fences;
  keys := update (keys s) b held; registered := registered s; birth_of := birth_of s; log := log s; sets := sets s;
  phase_of := phase_of s; grants := grants s |}.
Definition with_claim s b := {| moment_now := moment_now s; life_of := update (life_of s) b Recovering;
  claims := b :: claims s; claimed_at := update (claimed_at s) b (moment_now s); knows := knows s; fence := fence s;
  keys := keys s; registered := registered s; birth_of := birth_of s; log := log s; sets := sets s;
  phase_of := phase_of s; grants := grants s |}.
Definition with_registered s b r := {| moment_now := moment_now s; life_of := life_of s; claims := claims s;
  claimed_at := claimed_at s; knows := knows s; fence := fence s; keys := keys s;
  registered := update (registered s) b (Some r); birth_of := birth_of s; log := log s; sets := sets s;
  phase_of := phase_of s; grants := grants s |}.
Definition with_birth s b i := {| moment_now := moment_now s; life_of := update (life_of s) b Intact; claims := claims s;
  claimed_at := claimed_at s; knows := knows s; fence := fence s; keys := keys s; registered := registered s;
  birth_of := update (birth_of s) b (Some i); log := log s; sets := sets s; phase_of := phase_of s; grants := grants s |}.
Definition with_log s l := {| moment_now := moment_now s; life_of := life_of s; claims := claims s;
  claimed_at := claimed_at s; knows := knows s; fence := fence s; keys := keys s; registered := registered s;
  birth_of := birth_of s; log := l ++ log s; sets := sets s; phase_of := phase_of s; grants := grants s |}.
Definition with_sets s l := {| moment_now := moment_now s; life_of := life_of s; claims := claims s;
  claimed_at := claimed_at s; knows := knows s; fence := fence s; keys := keys s; registered := registered s;
  birth_of := birth_of s; log := log s; sets := l; phase_of := phase_of s; grants := grants s |}.
Definition with_set s f := with_sets s (f :: sets s).
Definition with_phase s c p := {| moment_now := moment_now s; life_of := life_of s; claims := claims s;
  claimed_at := claimed_at s; knows := knows s; fence := fence s; keys := keys s; registered := registered s;
  birth_of := birth_of s; log := log s; sets := sets s; phase_of := update (phase_of s) c p; grants := grants s |}.
Definition with_grant s g := {| moment_now := moment_now s; life_of := life_of s; claims := claims s;
  claimed_at := claimed_at s; knows := knows s; fence := fence s; keys := keys s; registered := registered s;
  birth_of := birth_of s; log := log s; sets := sets s; phase_of := phase_of s; grants := g :: grants s |}.
Definition next s := {| moment_now := S (moment_now s); life_of := life_of s; claims := claims s;
  claimed_at := claimed_at s; knows := knows s; fence := fence s; keys := keys s; registered := registered s;
  birth_of := birth_of s; log := log s; sets := sets s; phase_of := phase_of s; grants := grants s |}.

(* ---- what is seen, and what counts -------------------------------------------------------------- *)

(* The body answers, and its fences are `fences` after that. *)
Definition observe (s : state) (b : body) (fences : stripe -> Z) (p : purpose) : seen :=
  {| of_body := b; moment := moment_now s; knew := knows s b; before := fence s b; after := fences; why := p |}.

Definition is_view (y : system) (l : list seen) : bool :=
  all_differ (map (member (member_of y)) l) &&
  (majority_of (members y) <=? length l)%nat &&
  unless y Drops_superseded
    (forallb (fun o => forallb (fun o' => (knew o' (member (member_of y) o) <=? rank_of y (of_body o))%nat) l) l).

(* Observations by their places in the log. *)
Fixpoint pick (l : list seen) (places : list nat) : option (list seen) :=
  match places with
  | [] => Some []
  | i :: places =>
      match nth_error l i, pick l places with
      | Some o, Some picked => Some (o :: picked)
      | _, _ => None
      end
  end.

Definition is_vote (c : attempt) (began : nat) (ttl t : Z) (o : seen) : bool :=
  match why o with
  | Votes c' began' ttl' t' => (c' =? c)%nat && (began' =? began)%nat && (ttl' =? ttl) && (t' =? t)
  | _ => false
  end.
Definition is_extension (c : attempt) (began : nat) (ttl : Z) (o : seen) : bool :=
  match why o with
  | Extends c' began' ttl' => (c' =? c)%nat && (began' =? began)%nat && (ttl' =? ttl)
  | _ => false
  end.
(* Asked after the last vote that counts, of a body that voted. *)
Definition is_confirmation (c : attempt) (votes : list seen) (o : seen) : bool :=
  match why o with
  | Confirms c' => (c' =? c)%nat && existsb (fun v => of_body v =? of_body o)%nat votes &&
                   forallb (fun v => moment v <? moment o)%nat votes
  | _ => false
  end.

Definition validity_end (y : system) (c : attempt) (began : nat) (ttl : Z) : time :=
  client_clock y c (time_at y began) + ttl - drift_of (drift_ppm y) (drift_fixed y) ttl.

(* How long a body must wait: rl_guard_quarantine(). *)
Definition quarantine (y : system) : Z := ttl_max y + drift_of (drift_ppm y) (drift_fixed y) (ttl_max y).

(* Agents wait one after the other, and hand on the time that they waited: agent a from u to v. Each
   allows for the error of its two readings. *)
Record wait := { waiter : agent; wait_from : nat; wait_to : nat }.
Fixpoint waited (y : system) (since : nat) (waits : list wait) : option (nat * Z) :=
  match waits with
  | [] => Some (since, 0)
  | w :: waits =>
      if (since <=? wait_from w)%nat && (wait_from w <=? wait_to w)%nat then
        match waited y (wait_to w) waits with
        | Some (until, rest) =>
            Some (until, agent_clock y (waiter w) (time_at y (wait_to w))
                         - agent_clock y (waiter w) (time_at y (wait_from w)) - agent_error y + rest)
        | None => None
        end
      else None
  end.

Definition alive (s : state) (b : body) : bool :=
  match life_of s b with Recovering | Intact => true | _ => false end.
Definition intact (s : state) (b : body) : bool := match life_of s b with Intact => true | _ => false end.
Definition has_begun (s : state) (c : attempt) : bool := match phase_of s c with Idle => false | _ => true end.

Definition raised (f : stripe -> Z) (x : stripe) (t : Z) : stripe -> Z :=
  update f x (Z.max (f x) t).

Definition highest_known (own : node -> rank) (l : list seen) : node -> rank :=
  fun n => fold_right (fun o k => Nat.max (knew o n) k) (own n) l.
Definition highest_fence (own : stripe -> Z) (l : list seen) : stripe -> Z :=
  fun x => fold_right (fun o f => Z.max (after o x) f) (own x) l.

(* ---- what may happen --------------------------------------------------------------------------- *)

Inductive event :=
| Passes                                                     (* nothing: time passes *)
| Begins (c : attempt) (ttl : Z)
| Sets (b : body) (c : attempt) (began : nat) (ttl : Z)      (* SET NX PX; also a repair *)
| Raises (b : body) (c : attempt) (began : nat) (ttl t : Z)  (* ZADD XX GT, or the raise: a vote *)
| Bumps (b : body) (x : stripe) (t : Z)                      (* by a client that was denied, a repair, a break *)
| Extends_ (b : body) (c : attempt) (began : nat) (ttl t : Z)
| Deletes (b : body) (c : attempt)
| Ends (b : body) (x : resource)
| Confirms_ (b : body) (c : attempt)
| Reads (b : body)
| Learns (b : body) (n : node) (r : rank)                    (* an agent registers an incarnation *)
| Renames (b : body)                                         (* a break changes the nonce of its record *)
| Dies (b : body)
| Claims (b : body) (known : node -> rank) (fences : stripe -> Z) (held : resource -> option key)
| Is_registered (b : body) (at_ : list body)
| Installs (b : body) (places : list nat) (waits : list wait)
| Wins (c : attempt) (t : Z) (places : list nat) (confirm : option (list nat)) (until : time)
| Extended (c : attempt) (began : nat) (ttl : Z) (places : list nat) (until : time)
| Cuts (c : attempt) (until : time)
| Releases (c : attempt).                                    (* or an operator breaks the lock *)

Definition is_owned (c : attempt) (k : option key) : bool :=
  match k with Some k => (owner k =? c)%nat | None => false end.

(* Was a SET of this round granted there? If not, the key can only be there as old data: then the body
   has been claimed since the round began, and registered after that. *)
Definition may_have_key (s : state) (b : body) (c : attempt) (began : nat) (ttl : Z) : bool :=
  existsb (fun f => match f with (b', c', began', ttl') =>
    (b' =? b)%nat && (c' =? c)%nat && (began' =? began)%nat && (ttl' =? ttl) end) (sets s) ||
  match birth_of s b with Some i => (began <=? registered_at i)%nat | None => false end.

Definition act (y : system) (s : state) (e : event) : option state :=
  match e with
  | Passes => Some s
  | Begins c ttl =>
      match phase_of s c with
      | Idle => Some (with_phase s c (Trying (moment_now s) ttl))
      | _ => None
      end
  | Sets b c began ttl =>
      let x := resource_of y c in
      match keys s b x with
      | Some _ => None
      | None =>
          when (alive s b && has_begun s c && (began <=? moment_now s)%nat)
            (with_set (with_body s b (knows s b) (fence s b)
               (update (keys s b) x (Some {| owner := c; ends := server_clock y b (now y s) + ttl |})))
               (b, c, began, ttl))
      end
  | Raises b c began ttl t =>
      let x := stripe_for y c in
      when ((if drops y Only_intact_vote then alive s b else intact s b) && has_begun s c &&
            (began <=? moment_now s)%nat && unless y Raises_strictly (fence s b x <? t) &&
            may_have_key s b c began ttl)
        (with_log (with_body s b (knows s b) (raised (fence s b) x t) (keys s b))
           [observe s b (raised (fence s b) x t) (Votes c began ttl t)])
  | Bumps b x t => Some (with_body s b (knows s b) (raised (fence s b) x t) (keys s b))
  | Extends_ b c began ttl t =>
      let x := resource_of y c in
      match keys s b x with
      | Some k =>
          when (intact s b && (owner k =? c)%nat && (began <=? moment_now s)%nat)
            (with_log (with_body s b (knows s b) (raised (fence s b) (stripe_for y c) t)
               (update (keys s b) x
                 (Some {| owner := c; ends := Z.max (ends k) (server_clock y b (now y s) + ttl) |})))
               [observe s b (raised (fence s b) (stripe_for y c) t) (Extends c began ttl)])
      | None => None
      end
  | Deletes b c =>
      match phase_of s c with
      | Over => when (alive s b && is_owned c (keys s b (resource_of y c)))
                  (with_body s b (knows s b) (fence s b) (update (keys s b) (resource_of y c) None))
      | _ => None
      end
  | Ends b x =>
      match keys s b x with
      | Some k => when (alive s b && (ends k <=? server_clock y b (now y s)))
                    (with_body s b (knows s b) (fence s b) (update (keys s b) x None))
      | None => None
      end
  | Confirms_ b c => when (intact s b) (with_log s [observe s b (fence s b) (Confirms c)])
  | Reads b => when (intact s b) (with_log s [observe s b (fence s b) Is_read])
  | Learns b n r => Some (with_body s b (update (knows s b) n (Nat.max (knows s b n) r)) (fence s b) (keys s b))
  (* A ZADD that follows its SET only now finds no fences. *)
  | Renames b => Some (with_sets s (filter (fun f => negb (fst (fst (fst f)) =? b)%nat) (sets s)))
  | Dies b => when (alive s b) (with_life s b Dead)
  | Claims b known fences held =>
      match life_of s b with
      | Unborn =>
          when (forallb (fun b' => negb ((member_of y b' =? member_of y b)%nat && (rank_of y b' =? rank_of y b)%nat) ||
                                   match life_of s b' with Dead => true | _ => false end) (claims s))
            (with_claim (with_body s b known fences held) b)
      | _ => None
      end
  | Is_registered b at_ =>
      let l := map (fun b' => observe s b' (fence s b') Is_read) at_ in
      match life_of s b with
      | Recovering =>
          when (forallb (intact s) at_ && is_view y l &&
                unless y Registers (forallb (fun o => (rank_of y b <=? knew o (member_of y b))%nat) l))
            (with_log (with_registered s b {| complete_at := moment_now s; complete_by := l |}) l)
      | _ => None
      end
  | Installs b places waits =>
      match life_of s b, registered s b, pick (log s) places with
      | Recovering, Some r, Some l =>
          match waited y (complete_at r) waits with
          | Some (until, time_waited) =>
              when (unless y Reads_from_a_majority (is_view y l) && unless y Waits (quarantine y <=? time_waited) &&
                    unless y Reads_after_the_wait
                      (forallb (fun o => (complete_at r <? moment o)%nat && (until <=? moment o)%nat) l))
                (with_birth (with_body s b
                    (if drops y Installs_incarnations then knows s b else highest_known (knows s b) l)
                    (if drops y Installs_fences then fence s b else highest_fence (fence s b) l) (keys s b)) b
                  {| registered_at := complete_at r; registered_by := complete_by r; reads := l;
                     installed_at := moment_now s |})
          | None => None
          end
      | _, _, _ => None
      end
  | Wins c t places confirm until =>
      match phase_of s c, pick (log s) places with
      | Trying began ttl, Some votes =>
          let valid := is_view y votes && forallb (is_vote c began ttl t) votes && (ttl <=? ttl_max y) &&
                       (client_clock y c (now y s) <? validity_end y c began ttl) &&
                       (until <=? validity_end y c began ttl) in
          let won confirmed := with_grant (with_phase s c (Holding until))
            {| winner := c; fencing_token := t; began_at := began; won_at := moment_now s; won_ttl := ttl;
               won_by := votes; confirmed_by := confirmed |} in
          match confirm with
          | None => when valid (won None)
          | Some again =>
              match pick (log s) again with
              | Some answers => when (valid && is_view y answers && forallb (is_confirmation c votes) answers)
                                  (won (Some answers))
              | None => None
              end
          end
      | _, _ => None
      end
  | Extended c began ttl places until =>
      match phase_of s c, pick (log s) places with
      | Holding old, Some votes =>
          when (is_view y votes && forallb (is_extension c began ttl) votes && (ttl <=? ttl_max y) &&
                (client_clock y c (now y s) <? old) && (until <=? validity_end y c began ttl))
            (with_phase s c (Holding (Z.max old until)))
      | _, _ => None
      end
  | Cuts c until =>
      match phase_of s c with
      | Holding old => when (until <=? old) (with_phase s c (Holding until))
      | _ => None
      end
  | Releases c => Some (with_phase s c Over)
  end.

Definition step (y : system) (s : state) (e : event) : option state :=
  match act y s e with Some s' => Some (next s') | None => None end.

Notation reachable y := (Runs.reachable (initial y) (step y)).
Notation follows y := (Runs.follows (step y)).
Notation run y := (Runs.run (step y)).

Definition inside (y : system) (s : state) (c : attempt) : bool :=
  match phase_of s c with
  | Holding until => client_clock y c (now y s) <? until
  | _ => false
  end.
