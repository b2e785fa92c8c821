/*
 * How a job over several hosts ends: agents in a tree, their ranks, and the root that decides.
 *
 * A log (END with a code, OVER of an agent), numbered by the root, is passed down; each agent
 * applies it in order and passes it on to its children. Facts are passed up: the end is requested,
 * the ranks of an agent have ended, an agent is lost. Each agent keeps facts until the log shows
 * that the root knows them. An agent that loses its parent attaches to its next ancestor, reports
 * how much of the log it has, receives the rest, and sends its facts again; an agent without any
 * ancestor left ends its ranks.
 *
 * Checked: every run ends with no process left (a run that does not is an invalid end state, or a
 * cycle); all ranks that are notified of the end get the same code, that of the first request that
 * reached the root; and a job of one agent without deaths takes 2N to 4N-2 messages, where the end
 * of a rank counts as one.
 *
 *   -DA=3 -DTREE=CHAIN|STAR|FORK   agents, and how they are joined
 *   -DN=3                          ranks, assigned to the agents in turn
 *   -DDEATHS=1                     up to this many agents, possibly the root, may be killed
 *   -DWRONG=1..5                   a mistake, which must be found
 */
#define CHAIN 1 /* each below the previous one */
#define STAR  2 /* all below the root */
#define FORK  3 /* 1 below the root, all others below 1 */
#ifndef A
#define A 3
#endif
#ifndef N
#define N A
#endif
#ifndef TREE
#define TREE CHAIN
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef WRONG
#define WRONG 0
#endif

#if TREE == STAR
#define ABOVE(i) 0
#elif TREE == FORK
#define ABOVE(i) (i > 1 -> 1 : 0)
#else
#define ABOVE(i) (i - 1)
#endif
#define HOST(r)   (A - 1 - (r) % A) /* the root is the last to be assigned a rank */
#define NOBODY    255
#define WISH(r)   (1 + (r))  /* the code that rank r exits with */
#define DEATH(r)  (11 + (r)) /* the code of the job if rank r dies, */
#define LOSS      31         /* or if an agent is lost */
#define CODES     32
#define LINES     (A + 1) /* of the log */
#define BIT(i)    (1 << (i))
#define HAS(m, i) (((m) >> (i)) & 1)

mtype = { WANT, GONE, LOST, ATTACH, EXIT, ENDED };

chan words[A] = [2 * N] of { mtype, byte, byte };    /* of ranks, to their agent: rank, code */
chan inbox[A] = [4 * A] of { mtype, byte, byte };    /* of children: agent, code or length */
chan down[A] = [LINES] of { byte };                  /* of the parent: lines of the log */

/* The tree, and which agents are alive. */
bool alive[A];
byte parent[A];
bool linked[A]; /* known to the parent */
byte deaths, ended;
byte doomed; /* limit of deaths in this run: chosen first, so that no late death resolves a hang */

/* The state of an agent. Facts are kept until they are in the log. */
byte wanted[A];        /* the first code that was requested; 0: none */
byte gone[A], lost[A]; /* agents */
byte over[A];          /* agents, by the log */
byte code[A];          /* of END in the log; 0: none */
bool cut[A];           /* no way to the root, or declared lost by the root: its ranks must end */
byte length[A];        /* of its log */
byte line[A * LINES];  /* OVER of an agent, or END with its code */
#define OVER(i) (i)
#define END(k)  (A + (k))

/* The state of ranks. */
byte notified[N]; /* the code of the end that it was notified of; 0: none */
bool asked[N]; /* its agent has its request */
bool seen[N];  /* its agent knows its end */

/* For checks only. */
byte decided;
#if A == 1
byte messages, losses;
#define COUNT(what) what++
#else
#define COUNT(what) skip
#endif
bool possible[CODES];

/* Apply a line of the log and pass it on. */
inline append(l_me, l_line)
{
    assert(length[l_me] < LINES);
    line[l_me * LINES + length[l_me]] = l_line;
    length[l_me]++;
    if
    :: l_line > A -> code[l_me] = l_line - A; wanted[l_me] = 0; tell_ranks(l_me, code[l_me])
    :: else ->
        over[l_me] = over[l_me] | BIT(l_line);
        cut[l_me] = cut[l_me] || (l_line == l_me && !HAS(gone[l_me], l_me));
        gone[l_me] = gone[l_me] & ~over[l_me];
        lost[l_me] = lost[l_me] & ~over[l_me]
    fi;
    c = 1;
    do
    :: c < A && parent[c] == l_me && linked[c] && alive[c] ->
        assert(nfull(down[c]));
        down[c]!l_line;
        c++
    :: c < A && !(parent[c] == l_me && linked[c] && alive[c]) -> c++
    :: c == A -> break
    od
}

inline tell_ranks(t_me, t_code)
{
    r = A - 1 - t_me;
    do
    :: r < N ->
        if
        :: !seen[r] && !asked[r] && notified[r] == 0 -> notified[r] = t_code; COUNT(messages)
        :: else
        fi;
        r = r + A
    :: else -> break
    od
}

/* Send to the parent, if there is one; otherwise it is sent again to the next one. */
inline pass_up(p_me, p_kind, p_agent, p_code)
{
    if
    :: parent[p_me] != NOBODY && alive[parent[p_me]] ->
        assert(nfull(inbox[parent[p_me]]));
        inbox[parent[p_me]]!p_kind, p_agent, p_code
    :: parent[p_me] == NOBODY || !alive[parent[p_me]]
    fi
}

/* The root acts on new facts: the loss of an agent ends the job, too. */
inline act(x_kind, x_agent, x_code)
{
    if
    :: x_kind == LOST -> possible[LOSS] = true; x_code = LOSS
    :: else
    fi;
    if
    :: x_kind != GONE && code[0] == 0 ->
        assert(decided == 0 && possible[x_code]);
        decided = x_code;
        append(0, END(x_code))
    :: else
    fi;
    if
    :: x_kind != WANT -> append(0, OVER(x_agent))
    :: else
    fi
}

/* If this fact is new, keep it until it is in the log; otherwise clear f_kind. */
inline learn(f_me, f_kind, f_agent, f_code)
{
    if
    :: f_kind == WANT && wanted[f_me] == 0 && code[f_me] == 0 -> wanted[f_me] = f_code
    :: f_kind == GONE && !HAS(gone[f_me] | over[f_me], f_agent) ->
        gone[f_me] = gone[f_me] | BIT(f_agent)
    :: f_kind == LOST && !HAS(lost[f_me] | over[f_me], f_agent) ->
        lost[f_me] = lost[f_me] | BIT(f_agent)
    :: else -> f_kind = 0
    fi
}

#if WRONG == 3 /* facts are not sent again */
#define MINE(own) false
#elif WRONG == 5 /* only own facts are sent again, not those passed on */
#define MINE(own) (own)
#else
#define MINE(own) true
#endif

/* Send all facts that are not in the log. */
inline repeat(r_me)
{
    if
    :: wanted[r_me] != 0 && code[r_me] == 0 && MINE(own_wish) -> pass_up(r_me, WANT, r_me, wanted[r_me])
    :: else
    fi;
    c = 1;
    do
    :: c < A ->
        if
        :: HAS(gone[r_me] & ~over[r_me], c) && MINE(c == r_me) -> pass_up(r_me, GONE, c, 0)
        :: else
        fi;
        if
        :: HAS(lost[r_me] & ~over[r_me], c) -> pass_up(r_me, LOST, c, 0)
        :: else
        fi;
        c++
    :: else -> break
    od
}

/* The parent is dead: its messages that we have not read will be sent again. */
inline attach(a_me)
{
    do
    :: down[a_me]?number
    :: empty(down[a_me]) -> break
    od;
    linked[a_me] = false;
    if
    :: parent[a_me] == 0 -> parent[a_me] = NOBODY; cut[a_me] = true
    :: else ->
        parent[a_me] = ABOVE(parent[a_me]);
        pass_up(a_me, ATTACH, a_me, length[a_me]);
        repeat(a_me)
    fi
}

/* A child is new here and has `number` lines of the log. */
inline adopt(n_me, n_child)
{
    linked[n_child] = true;
    do
    :: number < length[n_me] ->
        assert(nfull(down[n_child]));
        down[n_child]!line[n_me * LINES + number];
        number++
    :: else -> break
    od
}

/* All ranks of this agent have ended, and no agent is left below it. There are at most four of
 * each. */
#define ENDED_AT(i, r) (HOST(r) != i || seen[r])
#define BELOW(i, c)    (parent[c] == i && alive[c])
#define QUIET(i)       (ENDED_AT(i, 0) QUIET_1(i) QUIET_2(i) QUIET_3(i))
#define ALONE(i)       (true ALONE_1(i) ALONE_2(i) ALONE_3(i))
#if N > 1
#define QUIET_1(i) && ENDED_AT(i, 1)
#else
#define QUIET_1(i)
#endif
#if N > 2
#define QUIET_2(i) && ENDED_AT(i, 2)
#else
#define QUIET_2(i)
#endif
#if N > 3
#define QUIET_3(i) && ENDED_AT(i, 3)
#else
#define QUIET_3(i)
#endif
#if A > 1
#define ALONE_1(i) && !BELOW(i, 1)
#else
#define ALONE_1(i)
#endif
#if A > 2
#define ALONE_2(i) && !BELOW(i, 2)
#else
#define ALONE_2(i)
#endif
#if A > 3
#define ALONE_3(i) && !BELOW(i, 3)
#else
#define ALONE_3(i)
#endif

/* A child that did not end cleanly; at the root also an agent whose parent is lost and that has not
 * attached elsewhere in time. */
#define IS_LOST(i, c)  (alive[i] && parent[c] == i && !alive[c] && !HAS(lost[i] | over[i], c))
#define IS_GIVEN_UP(c) (WRONG != 4 && !HAS(over[0], c) && parent[c] != NOBODY && \
                        HAS(over[0], parent[c]) && !alive[parent[c]])

proctype agent(byte i)
{
    mtype what;
    byte source, number, c, r;
    bool own_wish;
    do
    :: atomic { deaths < doomed -> deaths++; break } /* killed, and its ranks with it */
    :: atomic {
        if
        :: words[i]?what, source, number ->
            if
            :: what == EXIT -> asked[source] = true
            :: else -> seen[source] = true
            fi;
            what = (number != 0 -> WANT : 0);
            source = i;
            own_wish = own_wish || (number != 0 && wanted[i] == 0)
        :: QUIET(i) && !HAS(gone[i] | over[i], i) -> what = GONE; source = i
        :: inbox[i]?what, source, number ->
            if
            :: what == ATTACH ->
                if
                :: parent[source] == i -> adopt(i, source)
                :: else
                fi;
                what = 0
            :: else
            fi
#if A > 1
        :: IS_LOST(i, 1) -> what = LOST; source = 1
#endif
#if A > 2
        :: IS_LOST(i, 2) -> what = LOST; source = 2
        :: i == 0 && IS_GIVEN_UP(2) -> what = LOST; source = 2
#endif
#if A > 3
        :: IS_LOST(i, 3) -> what = LOST; source = 3
        :: i == 0 && IS_GIVEN_UP(3) -> what = LOST; source = 3
#endif
        fi;
        learn(i, what, source, number);
#if WRONG == 1 /* an agent decides for its own ranks */
        if
        :: what == WANT -> tell_ranks(i, number)
        :: else
        fi;
#endif
        if
        :: what != 0 && i == 0 -> act(what, source, number)
        :: what != 0 && i != 0 -> pass_up(i, what, source, number)
        :: else
        fi;
        what = 0; source = 0; number = 0; c = 0; r = 0
    }
    :: atomic { down[i]?number -> append(i, number); number = 0; c = 0; r = 0 }
#if WRONG != 2
    :: atomic {
        i != 0 && parent[i] != NOBODY && !alive[parent[i]] ->
        attach(i);
        what = 0; number = 0; c = 0
    }
#endif
    :: atomic { /* done: the root knows, and no agent below needs us */
        QUIET(i) && (parent[i] == NOBODY || (HAS(over[i], i) && ALONE(i))) &&
        (i != 0 || over[0] == BIT(A) - 1) ->
        break
    }
    od;
    atomic { /* clear its state; messages to it are not read */
        alive[i] = false;
        ended++;
        own_wish = false;
        linked[i] = false;
        wanted[i] = 0; gone[i] = 0; lost[i] = 0; over[i] = 0; code[i] = 0; cut[i] = false;
        do
        :: length[i] > 0 -> length[i]--; line[i * LINES + length[i]] = 0
        :: else -> break
        od;
        do
        :: nempty(words[i]) -> words[i]?_, _, _
        :: nempty(inbox[i]) -> inbox[i]?_, _, _
        :: nempty(down[i]) -> down[i]?_
        :: empty(words[i]) && empty(inbox[i]) && empty(down[i]) -> break
        od
    }
}

#define SAY(r, what, number) \
    if \
    :: alive[HOST(r)] -> words[HOST(r)]!what, r, number \
    :: else \
    fi

/* A rank that ends by itself, waits for the end of the job, or never looks. */
proctype rank(byte r)
{
    byte own = 0;
    if
    :: atomic {
        possible[WISH(r)] = true;
        SAY(r, EXIT, WISH(r));
        COUNT(messages)
    }
    :: atomic { COUNT(losses); possible[DEATH(r)] = true; own = DEATH(r) }
    :: r != N - 1 -> /* waits */
        if
        :: notified[r] != 0 -> assert(notified[r] == decided)
        :: code[HOST(r)] != 0 || cut[HOST(r)] /* killed: its time has expired */
        :: !alive[HOST(r)]
        fi
    :: r != N - 1 -> /* never looks */
        if
        :: code[HOST(r)] != 0 || cut[HOST(r)]
        :: !alive[HOST(r)]
        fi
    fi;
    atomic { SAY(r, ENDED, own); COUNT(messages); notified[r] = 0; own = 0; ended++ }
}

init
{
    byte i;
    atomic {
        select(doomed : 0 .. DEATHS);
        for (i : 0 .. A - 1) {
            alive[i] = true;
            linked[i] = true;
            if
            :: i == 0 -> parent[i] = 0
            :: else -> parent[i] = ABOVE(i)
            fi
        }
        for (i : 0 .. A - 1) {
            run agent(i)
        }
        for (i : 0 .. N - 1) {
            run rank(i)
        }
    }
    ended == A + N;
    assert(decided != 0 || deaths != 0);
#if A == 1
    assert(deaths + losses != 0 || (2 * N <= messages && messages <= 4 * N - 2))
#endif
}
